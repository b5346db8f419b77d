"""A stream's schema is set, shown and removed on both kinds of server."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.model.payload_schema import KEY
from jetstreams import Shell

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "buyer": {"properties": {"name": {"type": "string"}}}},
}


def test_a_schema_is_kept_in_the_metadata_of_the_stream(shell: Shell, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(SCHEMA))
    shell.ok("stream", "edit", stream, "--metadata", "team=a", "--force")
    shown = shell.ok("stream", "schema", "set", stream, "--json-schema", str(file))
    assert f"Schema of {stream}" in shown
    assert "data.buyer.name" in shown
    assert "BIGINT" in shown
    assert shell.json("stream", "schema", "show", stream) == SCHEMA
    metadata = shell.json("stream", "info", stream)["config"]["metadata"]
    assert json.loads(metadata[KEY])["schema"] == SCHEMA
    assert metadata["team"] == "a"

    assert shell.ok("stream", "schema", "rm", stream) == f"Stream {stream} has no schema\n"
    metadata = shell.json("stream", "info", stream)["config"]["metadata"]
    assert KEY not in metadata
    assert metadata["team"] == "a"
    ran = shell("stream", "schema", "show", stream)
    assert ran.code == 2
    assert f"stream {stream} has no schema: set one with" in ran.err


def test_a_file_that_is_no_schema_is_refused(shell: Shell, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    for text, words in (("{", "is not JSON"), ('{"type": "string"}', 'must have "type": "object"')):
        file.write_text(text)
        ran = shell("stream", "schema", "set", stream, "--json-schema", str(file))
        assert (ran.code, words in ran.err) == (2, True)
    assert KEY not in (shell.json("stream", "info", stream)["config"].get("metadata") or {})
