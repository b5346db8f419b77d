"""The streams that commands query: their options of a read, and their schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.client import Caller
from headwater.cli.queried_streams import queried_streams
from headwater.errors import SettingsError
from headwater.model.payload_schema import KEY, stored
from jetstreams import Shell

SCHEMA = {"properties": {"n": {"type": "integer"}}}


def test_a_stream_of_a_server_is_found_in_either_case_with_its_schema(shell: Shell, name: str) -> None:
    subjects = ("--subjects", f"{name}.>", "--defaults", "--metadata", f"{KEY}={stored(SCHEMA)}")
    shell.ok("stream", "add", name, *subjects)
    caller = Caller({"server": shell.url, "no_context": True}, as_json=False)
    find = queried_streams(caller, "", "", False, {"endSequence": "3"})
    found = find(name.lower())
    assert found is not None
    assert found.schema == SCHEMA
    assert found.options == {"server": shell.url, "apiPrefix": "$JS.API", "endSequence": "3", "stream": name}
    assert find("missing") is None


def test_a_place_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no store in"):
        queried_streams(Caller({}, as_json=False), str(tmp_path / "missing"), "", False, {})
