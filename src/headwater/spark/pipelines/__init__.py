"""Pipelines on Spark: the runner of streaming queries from streams to streams."""
