"""A row and the declaration next to the data describe the same stream or consumer."""

from __future__ import annotations

from pathlib import Path

from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.catalog_schema import TABLES

STREAM = StreamRow("$G", "a b", "{}", 17, "id", "a%20b", 3)
CONSUMER = ConsumerRow("$G", "a b", "c", "{}", 5, 2)


def test_a_stream_row_comes_back_from_its_declaration() -> None:
    assert StreamRow.of(STREAM.declaration("store"), "a%20b") == STREAM


def test_a_consumer_s_file_and_declaration_have_its_revision() -> None:
    assert str(CONSUMER.file) == "c.5.2.json"
    declared = CONSUMER.declaration("id")
    assert (declared.identity, declared.name, declared.revision) == ("id", "c", 2)


def test_the_values_of_a_row_are_in_the_order_of_the_columns() -> None:
    for row, table in ((STREAM, "streams"), (CONSUMER, "consumers")):
        assert row.values == tuple(getattr(row, name) for name in TABLES.columns[table].split(", "))


def test_a_stream_lives_below_its_account() -> None:
    assert STREAM.home(Path("store")) == Path("store") / "$G" / "a%20b"
