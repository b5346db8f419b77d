"""What each place promises that a store is copied to: it is continued, compared, and usable as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.checksum import crc32
from headwater.errors import Error
from headwater.journal.journal_copy import JournalCopy
from headwater.store.copy_source import CopiedFile, CopyItem, StoreContents
from headwater.store.journal_target import JournalTarget
from headwater.store.store_copy import BucketTarget, CopyTarget, DirectoryTarget
from journals import folder, folder_journal

FILES = {
    "head/catalog.db": b"rows",
    "head/$G/ORDERS/log/1": b"log" * 1000,
    "tables/$G/ORDERS/base_seq=0/a.parquet": b"data" * 500,
    "tables/$G/ORDERS/_delta_log/00000000000000000000.json": b"{}",
}
Opens = Callable[[], CopyTarget]


@pytest.fixture(params=["bucket", "directory", "journal"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Opens:
    """Return what opens the same target, as each attempt does."""
    attempts: list[Path] = []

    def journal() -> JournalTarget:
        attempts.append(tmp_path / f"rebuilt-{len(attempts)}")
        attempts[-1].mkdir()
        tables = BucketTarget(folder(tmp_path / "tables"))
        return JournalTarget(JournalCopy(folder_journal(tmp_path / "journal")), tables, 1, attempts[-1])

    made: dict[str, Opens] = {
        "bucket": lambda: BucketTarget(folder(tmp_path / "objects")),
        "directory": lambda: DirectoryTarget(tmp_path / "directory"),
        "journal": journal,
    }
    return made[str(request.param)]


def items() -> list[CopyItem]:
    return [CopyItem(name, len(data), lambda data=data: data) for name, data in FILES.items()]  # type: ignore[misc]


def finish(target: CopyTarget) -> None:
    files = [CopiedFile(name, len(data), crc32(data)) for name, data in FILES.items()]
    target.finish(StoreContents("id", items(), []), files)


def test_what_was_put_is_read_back_and_a_complete_copy_is_not_changed(opens: Opens) -> None:
    target = opens()
    target.require_usable("id")
    target.begin("id")
    for item in items():
        target.put(item, item.read())
    assert {name: target.read(name) for name in FILES} == FILES
    finish(target)
    target.end()
    for store_id in ("id", "another"):
        with pytest.raises(Error, match=r"is not empty|holds a complete copy"):
            opens().require_usable(store_id)


def test_an_unfinished_copy_is_continued_by_its_store_only(opens: Opens) -> None:
    first = opens()
    first.begin("id")
    for item in items()[1:]:
        first.put(item, item.read())
    first.end()
    with pytest.raises(Error, match="is not empty"):
        opens().require_usable("another")
    second = opens()
    second.require_usable("id")
    assert second.size_of("tables/$G/ORDERS/base_seq=0/a.parquet") == 2000
    assert second.size_of("tables/$G/ORDERS/base_seq=0/b.parquet") == -1
    second.begin("id")
    for item in items():
        second.put(item, item.read())
    assert {name: second.read(name) for name in FILES} == FILES
    finish(second)
    second.end()
