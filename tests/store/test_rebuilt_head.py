"""The head in a journal is written to a folder, and the journal stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import CorruptionError, FencedError
from headwater.journal.head_journal import JournalError, UnfitJournalError
from headwater.journal.opened_head import OpenedHead, open_head
from headwater.journal.record import RecordKind
from headwater.settings import Settings
from headwater.store.rebuilt_head import journal_settings, rebuild_head
from journal_cluster import journal_cluster


def opened(settings: Settings) -> OpenedHead:
    def lose(reason: str) -> FencedError:
        raise AssertionError(reason)

    return open_head(settings, 0, lose, lambda owner: None, lambda: False)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "store").mkdir()
    (tmp_path / "made").mkdir()
    return replace(journal_settings(f"file://{tmp_path}/journal"), store=tmp_path / "store")


def records(tmp_path: Path) -> dict[str, bytes]:
    found = (path for path in (tmp_path / "journal").rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in found}


def test_a_head_is_written_while_it_is_served_and_afterwards(tmp_path: Path, settings: Settings) -> None:
    head = opened(settings)
    head.disk.mkdir(tmp_path / "store" / "$G")
    head.disk.write_atomic(tmp_path / "store" / "$G" / "x", b"1")
    assert rebuild_head(settings, tmp_path / "made").kind != RecordKind.CLOSED
    assert (tmp_path / "made" / "$G" / "x").read_bytes() == b"1"
    head.disk.write_atomic(tmp_path / "store" / "$G" / "x", b"2")
    head.close()
    before = records(tmp_path)
    assert rebuild_head(settings, tmp_path / "made").kind == RecordKind.CLOSED
    assert (tmp_path / "made" / "$G" / "x").read_bytes() == b"2"
    assert records(tmp_path) == before


def test_a_journal_that_is_empty_damaged_or_incomplete_is_refused(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(UnfitJournalError, match="contains no store"):
        rebuild_head(settings, tmp_path / "made")
    assert records(tmp_path) == {}
    head = opened(settings)
    head.disk.mkdir(tmp_path / "store" / "$G")
    head.disk.write_atomic(tmp_path / "store" / "$G" / "x", b"1" * 1000)
    head.close()
    changed = max((tmp_path / "journal").rglob("0*"), key=lambda path: path.stat().st_size)
    content = bytearray(changed.read_bytes())
    content[-5] ^= 1
    changed.write_bytes(content)
    with pytest.raises(CorruptionError, match="checksum"):
        rebuild_head(settings, tmp_path / "made")
    changed.unlink()
    with pytest.raises(JournalError, match="missing"):
        rebuild_head(settings, tmp_path / "made")


def test_a_stream_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with journal_cluster(size=1) as servers:
        settings = journal_settings(f"{servers.url}/LAKE")
        for _ in range(2):
            with pytest.raises(UnfitJournalError, match="there is no stream HEADWATER_JOURNAL_LAKE"):
                rebuild_head(settings, tmp_path / "made")
