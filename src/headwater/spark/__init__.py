"""Streams as a Spark data source."""

from headwater.spark.spark_names import find as __getattr__

__all__ = ["__getattr__"]
