"""What cannot be decoded at all is refused before Spark is asked; tests/on_spark decodes real payloads."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.spark.decoding import decode


class NamedColumns:
    """As much of a DataFrame as is looked at first."""

    columns = ("seq", "data")


@pytest.mark.parametrize(
    ("format", "options", "words"),
    [
        ("yaml", {}, "format 'yaml' is unknown: there are json, csv, text, avro, protobuf"),
        ("json", {"column": "payload"}, "no column 'payload' to decode: it has seq, data"),
        ("csv", {}, "csv needs a schema"),
        ("avro", {}, "avro needs its schema as JSON text"),
        ("protobuf", {"schema": "Order"}, "protobuf needs DESCRIPTOR_FILE:MESSAGE"),
    ],
)
def test_a_wrong_call_is_refused(format: str, options: dict[str, Any], words: str) -> None:
    frame: Any = NamedColumns()
    with pytest.raises(SettingsError, match=words):
        decode(frame, format, **options)
