"""`format("headwater")` of Spark: a stream as a DataFrame, read and written, at once or batch by batch."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headwater.errors import SettingsError
from headwater.spark.following_reader import FollowingReader
from headwater.spark.reading import Reading, names_of
from headwater.spark.spark_schema import SCHEMA, column_names
from headwater.spark.stream_reader import StreamReader
from headwater.spark.table_options import kept_in, options_of
from headwater.spark.writers import BatchesWriter, BatchWriter, checked

NAME = "headwater"
APPENDS = "a stream cannot be overwritten: use mode append"


class StreamDataSource(DataSource):
    """A stream of Headwater, or without a path, of any JetStream server."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns or those of option `columns`; `.schema(…)` with fewer reads only those."""
        selected = StructType([SCHEMA[name] for name in names_of(self.options)])
        return kept_in(selected, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the stream's current messages."""
        return StreamReader(Reading(options_of(self.options, schema)), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that adds the rows to the stream as messages."""
        if overwrite:
            raise SettingsError(APPENDS)
        return BatchWriter(checked(schema, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer that adds each batch of a query to the stream once."""
        if overwrite:
            raise SettingsError(APPENDS)
        return BatchesWriter(checked(schema, self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that follows the stream."""
        reading = Reading(options_of(self.options, schema))
        if reading.origin is None:
            raise SettingsError("missing option server: readStream needs it to find the end of the stream")
        return FollowingReader(reading, column_names(schema))
