"""Where Spark looks for data sources: with it `spark.read.format("headwater")` needs no registration."""

from headwater.replication.data_source import StreamSource as DefaultSource

__all__ = ["DefaultSource"]
