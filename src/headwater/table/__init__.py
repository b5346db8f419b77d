"""The durable body of a stream: a Delta table of Parquet files in sequence order."""

from headwater.table.datafile import DataFile
from headwater.table.row_group import RowGroup
from headwater.table.table import Table

__all__ = ["DataFile", "RowGroup", "Table"]
