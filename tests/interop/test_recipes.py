"""The recipes of docs/reference/tables.md: each reader sees the same messages, with fields of their JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.disk import RealDisk
from headwater.model.message import Message
from headwater.table import Table
from table.links import link_of
from table.samples import TS, columns_of

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "tables.md"
COPIED_NS = 1_800_000_000_000_000_000
SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.M)


def recipe(title: str) -> str:
    """Return the Python of a section of the page."""
    [section] = [each for each in SECTIONS if each.startswith(title)]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the store that the page reads, with messages of its own and copied ones, all with JSON."""
    folder = tmp_path / "lake" / "$G" / "ARCHIVE"
    table, staging = Table.open(folder / "table", RealDisk(sync=False)), folder / "staging"
    own = [Message(seq, TS + seq, b"orders.eu", b"", b'{"id": %d, "amount": 2.5}' % seq) for seq in (1, 2, 3)]
    table.commit([table.write(columns_of(own))])
    monkeypatch.chdir(tmp_path)
    return staging


def printed(code: str) -> list[Any]:
    """Return the values that a recipe prints."""
    said: list[Any] = []
    exec(compile(code, str(PAGE), "exec"), {"print": said.append})
    return said


def test_polars_reads_messages_and_the_fields_of_their_json(store: Path) -> None:
    rows, fields = printed(recipe("In Polars"))
    assert rows["seq"].to_list() == [1, 2, 3]
    assert fields["amount"].to_list() == [2.5] * 3


def test_duckdb_reads_messages_with_linked_ones_and_what_is_no_json(store: Path) -> None:
    table = Table.open(Path("lake/$G/ARCHIVE/table"), RealDisk(sync=False))
    table.adopt(store, [link_of(store, range(500, 510)).behind(3, 0, COPIED_NS)], {})
    [table_of_rows] = printed(recipe("In DuckDB"))
    rows = [tuple(row.values()) for row in table_of_rows.to_pylist()]
    assert [row[0] for row in rows] == list(range(1, 14))
    assert [row[4] for row in rows] == [None] * 3 + list(range(500, 510))
    assert [row[5] for row in rows[:3]] == ["2.5"] * 3
    assert rows[3][1].timestamp() == COPIED_NS / 1e9


def test_deltalake_selects_by_subject(store: Path) -> None:
    names: dict[str, object] = {}
    exec(compile(recipe("With deltalake"), str(PAGE), "exec"), names)
    assert names["rows"]["seq"].to_pylist() == [1, 2, 3]  # type: ignore[index]
