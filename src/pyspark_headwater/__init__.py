"""Where Spark looks for data sources: with it `spark.read.format("headwater")` needs no registration."""

from headwater.spark.data_source import StreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
