"""SQL over streams from the command line: through a server of either kind, and from a store's tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.model.payload_schema import KEY, stored
from jetstreams import Shell
from lake.stores import ORDERS, lake

SCHEMA = {"properties": {"n": {"type": "integer"}}}


def test_a_stream_of_a_server_is_a_table(shell: Shell, stream: str, tmp_path: Path) -> None:
    count = f"SELECT subject, count(*) AS messages FROM {stream} GROUP BY 1 ORDER BY 1"
    assert shell.ok("sql", count, "--format", "csv").splitlines() == [
        "subject,messages",
        *(f"{stream}.{token},1" for token in "abc"),
    ]
    rows = shell.ok("sql", f"SELECT seq, data FROM {stream.lower()} ORDER BY seq", "--json")
    assert json.loads(rows.splitlines()[0]) == {"seq": 1, "data": "message a"}
    output = tmp_path / "rows.parquet"
    assert shell.ok("sql", f"SELECT * FROM {stream}", "--format", "parquet", "--output", str(output)) == ""
    assert pq.read_table(output)["seq"].to_pylist() == [1, 2, 3]
    assert "3 rows" in shell.ok("sql", f"SELECT * FROM {stream}")


def test_the_past_of_a_stream_is_asked_for(shell: Shell, stream: str) -> None:
    def count(*flags: str) -> str:
        query = f"SELECT count(*) AS n FROM {stream}"
        return shell.ok("sql", "--format", "csv", *flags, query).splitlines()[1]

    second = shell.json("stream", "get", stream, "2")["time"]
    assert (count(), count("--as-of-seq", "2"), count("--as-of-time", second)) == ("3", "2", "2")


def test_a_schema_makes_fields(shell: Shell, name: str) -> None:
    shell.ok(
        "stream",
        "add",
        name,
        "--subjects",
        f"{name}.>",
        "--defaults",
        "--metadata",
        f"{KEY}={stored(SCHEMA)}",
    )
    for payload in ('{"n": 7}', "text"):
        shell.ok("pub", f"{name}.a", payload, "--jetstream", "--quiet")
    query = f"SELECT data.n, _corrupt FROM {name} ORDER BY seq"
    assert shell.ok("sql", query, "--format", "csv") == "n,_corrupt\n7,\n,text\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "missing query"),
        (("SELECT 1", "--as-of-time", "noon"), 2, "--as-of-time must be a time such as"),
        (("SELECT 1", "--store", "missing"), 2, "there is no store in missing"),
        (("SELECT * FROM missing_stream",), 1, "missing_stream"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = shell("sql", *arguments)
    assert ran.code == code
    assert words in ran.err


async def test_a_store_is_read_without_an_engine(tmp_path: Path) -> None:
    async with lake(tmp_path) as running:
        store = running.store
        server = running.client_url
    shell = Shell(server, tmp_path)
    query = "SELECT count(*) AS n, max(decode(data)::INT) AS most FROM orders"
    found = shell.ok("sql", "--store", str(store), "--format", "csv", query)
    assert found == f"n,most\n{ORDERS},{ORDERS}\n"
