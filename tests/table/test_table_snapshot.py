"""A snapshot is read again whole, and anything else counts as none."""

from __future__ import annotations

from headwater.model.copied import Copied
from headwater.model.sealed import seal
from headwater.table import table_snapshot
from headwater.table.datafile import DataFile
from headwater.table.table_snapshot import TableSnapshot

FILES = (
    DataFile("base_seq=0/a.parquet", 0, 3, 1, 3, 100, 5, 9, "a", "b", 3),
    DataFile("base_seq=4/b.parquet", 4, 1, 4, 4, 50, 5, 9, copied=Copied("O", "id", 7, 1, 2, 3, 1)),
)


def test_a_snapshot_is_read_again_whole() -> None:
    snapshot = TableSnapshot(
        version=7, partitions=("base_seq",), files=FILES, transactions={"headwater-fold": 4}
    )
    assert table_snapshot.decode(table_snapshot.encode(snapshot)) == snapshot


def test_a_damaged_missing_or_newer_one_is_none() -> None:
    snapshot = TableSnapshot(version=7, partitions=(), files=FILES, transactions={})
    content = bytearray(table_snapshot.encode(snapshot))
    content[-9] ^= 1
    assert table_snapshot.decode(bytes(content)) is None
    assert table_snapshot.decode(None) is None
    assert table_snapshot.decode(b"") is None
    assert table_snapshot.decode(seal(snapshot, table_snapshot.VERSION + 1)) is None
