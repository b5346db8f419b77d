"""Parquet pages copied as bytes: the codec behind fast copies.

Code outside `table` imports from here, not from the modules below: they are free to change.
"""

from headwater.table.pages.data_chunk import DataChunk
from headwater.table.pages.plain_values import LENGTH_BYTES, PlainValues
from headwater.table.pages.segments import taken_out
from headwater.table.pages.spliced import SplicedWriter

__all__ = ["LENGTH_BYTES", "DataChunk", "PlainValues", "SplicedWriter", "taken_out"]
