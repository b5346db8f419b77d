"""A directory from records: every kind of change, incomplete ones, and a journal whose start was trimmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import CorruptionError
from headwater.journal.rebuilding import Rebuilding
from headwater.journal.record import ChangePiece, FileOp, Record, RecordKind


def record(position: int, *pieces: ChangePiece, kind: RecordKind = RecordKind.CHANGES) -> Record:
    return Record(
        journal="id", epoch=1, engine=b"", owner="", position=position, floor=1, kind=kind, pieces=pieces
    )


def whole(path: str, data: bytes, *, more: bool = False) -> ChangePiece:
    return ChangePiece(FileOp.WHOLE, path, 0, data, more)


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_changes_are_made_in_order(tmp_path: Path) -> None:
    rebuilding = Rebuilding(tmp_path)
    rebuilding.apply(record(1, whole("acc/.new/id", b"id"), whole("acc/.new/log", b"")))
    rebuilding.apply(record(2, ChangePiece(FileOp.RENAME, "acc/.new", 0, b"acc/A")))
    rebuilding.apply(record(3, ChangePiece(FileOp.WRITE, "acc/A/log", 0, b"12345")))
    rebuilding.apply(record(4, ChangePiece(FileOp.TRUNCATE, "acc/A/log", 3), whole("acc/B/id", b"b")))
    rebuilding.apply(record(5, ChangePiece(FileOp.REMOVE, "acc/B")))
    assert files(tmp_path) == {"acc/A/id": b"id", "acc/A/log": b"123"}
    assert rebuilding.lengths(rebuilding.contents.names()) == {"acc/A/id": 2, "acc/A/log": 3}


def test_an_incomplete_change_never_happened(tmp_path: Path) -> None:
    rebuilding = Rebuilding(tmp_path)
    rebuilding.apply(record(1, whole("a", b"old")))
    rebuilding.apply(record(2, whole("a", b"new", more=True)))
    assert files(tmp_path) == {"a": b"old"}
    rebuilding.apply(record(3, kind=RecordKind.TAKEOVER))
    rebuilding.apply(record(4, whole("b", b"b")))
    assert files(tmp_path) == {"a": b"old", "b": b"b"}


def test_a_rename_whose_source_was_trimmed_changes_nothing(tmp_path: Path) -> None:
    rebuilding = Rebuilding(tmp_path)
    rebuilding.apply(record(5, ChangePiece(FileOp.RENAME, "acc/.new", 0, b"acc/A")))
    rebuilding.apply(record(6, whole("acc/A/id", b"id")))
    assert files(tmp_path) == {"acc/A/id": b"id"}


def test_only_what_is_part_of_a_head_is_cleared(tmp_path: Path) -> None:
    for name in ("acc/A/id", ".tables/cache/x", "catalog.db", "catalog.db-wal", "engine.lock", "epoch"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    Rebuilding(tmp_path).clear()
    assert sorted(files(tmp_path)) == [".tables/cache/x", "engine.lock", "epoch"]


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_a_path_outside_the_store_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptionError, match="outside the store"):
        Rebuilding(tmp_path / "store").apply(record(1, whole(name, b"x")))
