"""Declared streams are found by name, by subject and by identity."""

from __future__ import annotations

from headwater.control.catalog_rows import StreamRow
from headwater.control.declared_streams import DeclaredStreams, readable_config
from headwater.model.stream import StreamConfig
from headwater.wire.stream_json import encode_config


def row(name: str, identity: str = "first") -> StreamRow:
    declared = StreamConfig(name=name, subjects=(f"{name}.>",))
    return StreamRow("$G", name, encode_config(declared).decode(), 17, identity, name)


def test_names_are_sorted_and_chosen_by_subject() -> None:
    streams = DeclaredStreams()
    streams.add(row("b"))
    streams.add(row("a"))
    assert streams.names() == ["a", "b"]
    assert streams.names("b.*") == ["b"]
    assert streams.names("c") == []


def test_a_stream_that_was_re_created_is_not_the_one_of_the_old_row() -> None:
    streams = DeclaredStreams()
    assert not streams.has(row("a"))
    streams.add(row("a"))
    assert streams.has(row("a"))
    streams.remove("a")
    streams.add(row("a", "second"))
    assert not streams.has(row("a"))


def test_a_config_that_cannot_be_read_leaves_the_name() -> None:
    damaged = StreamRow("$G", "a", "{", 17, "first", "a")
    assert readable_config(damaged) == StreamConfig(name="a")
    streams = DeclaredStreams()
    streams.add(damaged)
    assert streams.names() == ["a"]
    assert streams.names("a.1") == []
