"""A table in a bucket is checked on a copy."""

from __future__ import annotations

from pathlib import Path

from headwater.disk import RealDisk
from headwater.store.fetched_table import fetch
from headwater.table import Table
from headwater.table.remote_table import RemoteTable
from table.samples import columns


def test_the_copy_holds_what_the_table_holds(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "bucket", RealDisk())
    table.commit(add=[table.write(columns(range(1, 50)))])
    fetch(RemoteTable(address=f"file://{tmp_path}/bucket"), tmp_path / "copy")
    copied = Table.open(tmp_path / "copy", RealDisk())
    assert copied.files == table.files
    assert copied.found(copied.files[0]).seqs == table.found(table.files[0]).seqs
