"""Streams of a site file are JetStream's own JSON, checked before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.site.document import read_document
from headwater.site.stream_entries import read_streams
from headwater.site.topology import Account, DeclaredStream

ACCOUNTS = (Account("A"), Account("B"))


def streams(directory: Path, value: Any) -> tuple[DeclaredStream, ...]:
    """Return the streams of a document with this in it."""
    (directory / "a.yaml").write_text(json.dumps(value))
    return read_streams(read_document(directory / "a.yaml"), ACCOUNTS)


def test_a_stream_is_in_the_site_file_or_in_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"name": "S", "subjects": ["s.>"]}')
    found = streams(tmp_path, [{"name": "T"}, "s.json", {"account": "B", "config": "s.json"}])
    assert [(stream.account, stream.name) for stream in found] == [("A", "T"), ("A", "S"), ("B", "S")]
    assert found[1].config["subjects"] == ["s.>"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([{"name": "S", "subject": "x"}], 'unknown field "subject"'),
        ([{"name": "S", "max_msgs": "many"}], "the config of 'S' is invalid"),
        ([{"subjects": ["x"]}], "with a name"),
        (["none.json"], "there is no file"),
        (["bad.json"], "is not JSON"),
        (["list.json"], "not a stream: write its config"),
        ([{"account": "C", "config": {"name": "S"}}], "there is no account 'C' for streams: use A, B"),
        ([{"name": "S"}, {"name": "S"}], "the stream 'S' is listed twice"),
    ],
)
def test_what_is_no_stream_is_refused_with_its_place(tmp_path: Path, value: Any, said: str) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(SettingsError) as wrong:
        streams(tmp_path, value)
    assert said in str(wrong.value)
    assert "a.yaml:1: [" in str(wrong.value)
