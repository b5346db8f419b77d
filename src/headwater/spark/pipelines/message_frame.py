"""The result of a pipeline's query as messages: columns `subject`, `data`, `headers` and `msg_id`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from headwater.errors import SettingsError
from headwater.spark.decoding import CORRUPT
from headwater.spark.message_rows import DATA, HEADERS, IGNORED, MESSAGE_ID, SUBJECT, check_columns

_NESTED = (StructType, MapType, ArrayType, VariantType)


def message_frame(frame: DataFrame, subject: str) -> DataFrame:
    """Return the messages of a query.

    Without a column `data`, the payload is a JSON object of the other columns. Without a column `subject`,
    the given one is used.
    """
    names = frame.columns
    given = [name for name in (SUBJECT, HEADERS, MESSAGE_ID) if name in names]
    columns = [F.col(name) for name in given]
    if SUBJECT not in names:
        if not subject:
            raise SettingsError(
                "the query has no column subject: add one, such as concat('big.', region) AS subject, or "
                "pass --subject for all messages"
            )
        columns.append(F.lit(subject).alias(SUBJECT))
    if DATA in names:
        others = [name for name in names if name not in (*given, DATA, CORRUPT, *IGNORED)]
        if others:
            raise SettingsError(
                f"the query has columns data and {others[0]}: leave out data, and all others become its JSON"
            )
        columns.append(_payload(frame).alias(DATA))
    else:
        fields = [F.col(f"`{name.replace('`', '``')}`") for name in names if name not in given]
        if not fields:
            raise SettingsError("the query has no column for the payload")
        columns.append(F.to_json(F.struct(*fields)).alias(DATA))
    messages = frame.select(*columns)
    check_columns(messages.columns, [field.dataType.simpleString() for field in messages.schema.fields])
    return messages


def _payload(frame: DataFrame) -> Column:
    """Return column `data` as bytes or text; a decoded payload becomes JSON, one that did not parse stays."""
    data = F.col(DATA)
    if not isinstance(frame.schema[DATA].dataType, _NESTED):
        return data
    text = F.to_json(data)
    return F.coalesce(text.cast("binary"), F.col(CORRUPT)) if CORRUPT in frame.columns else text
