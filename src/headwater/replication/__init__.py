"""Copying upstreams on Spark: the replicator and its tasks; the only package that imports pyspark."""
