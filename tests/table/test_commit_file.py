"""A commit that is not what was written is recognised."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.disk import RealDisk
from headwater.table import Table
from headwater.table.commit_file import (
    CHECKSUM,
    checkpoint_name,
    checkpoints,
    checksum,
    commit_name,
    problem,
    versions,
)
from table.samples import columns


def newest(table: Table) -> bytes:
    return (table.directory / "_delta_log" / commit_name(table.version)).read_bytes()


def actions(content: bytes) -> str:
    """Return what a commit says that means something to us."""
    said = [json.loads(line) for line in content.splitlines()]
    return checksum(said)


def test_a_commit_names_the_checksum_of_its_actions(tmp_path: Path) -> None:
    table = Table.open(tmp_path, RealDisk(sync=False))
    file = table.write(columns(range(1, 20)))
    table.commit(add=[file], transactions={"fold": 19})
    table.commit(add=[table.write(columns(range(1, 9)))], remove=[file], transactions={"fold": 20})
    for version in (1, 2):
        content = (tmp_path / "_delta_log" / commit_name(version)).read_bytes()
        assert CHECKSUM.encode() in content
        assert problem(content) == ""


def test_every_flipped_bit_of_a_commit_is_found_or_changes_nothing_that_is_used(tmp_path: Path) -> None:
    table = Table.open(tmp_path, RealDisk(sync=False))
    table.commit(add=[table.write(columns(range(1, 20)))], transactions={"fold": 19})
    whole = newest(table)
    expected = actions(whole)
    found = 0
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        if problem(bytes(flipped)):
            found += 1
        else:
            assert actions(bytes(flipped)) == expected, at
    assert found > len(whole) // 2


def test_a_commit_without_a_checksum_is_checked_for_its_form() -> None:
    old = b'{"commitInfo":{"headwater.actions":"1"}}\n{"txn":{"appId":"a","version":1}}\n'
    assert problem(old) == ""
    assert "as many actions" in problem(old.splitlines()[0])
    assert "decoded" in problem(old[:-5])


def test_names_say_what_a_file_is() -> None:
    names = [commit_name(3), checkpoint_name(2), "_last_checkpoint", "x.json"]
    assert versions(names) == [3]
    assert checkpoints(names) == [2]
