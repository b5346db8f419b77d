"""A head from settings: which directories and addresses are refused, with nothing written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import FencedError, SettingsError
from headwater.journal import opened_head
from headwater.journal.head_journal import HeadJournal, JournalError
from headwater.journal.opened_head import (
    DEFAULT_NAME,
    MARK,
    OpenedHead,
    open_head,
    read_mark,
    require_no_mark,
    servers_of,
)
from headwater.settings import Settings
from journal_cluster import journal_cluster


def settings(tmp_path: Path, store: Path, **more: Any) -> Settings:
    store.mkdir(exist_ok=True)
    return Settings(
        store=store, tables=f"file://{tmp_path}/tables", journal=f"file://{tmp_path}/journal", **more
    )


def opened(found: Settings) -> OpenedHead:
    def lose(reason: str) -> FencedError:
        raise AssertionError(reason)

    return open_head(found, 0, lose, lambda owner: None, lambda: False)


def test_a_store_is_opened_again_from_another_directory(tmp_path: Path) -> None:
    first = opened(settings(tmp_path, tmp_path / "a"))
    first.disk.mkdir(tmp_path / "a" / "$G")
    first.disk.write_atomic(tmp_path / "a" / "$G" / "x", b"1")
    first.close()
    second = opened(settings(tmp_path, tmp_path / "b"))
    assert (tmp_path / "b" / "$G" / "x").read_bytes() == b"1"
    assert (first.epoch, second.epoch, second.copies) == (1, 2, 1)
    assert read_mark(tmp_path / "a") == read_mark(tmp_path / "b")
    second.close()
    third = opened(settings(tmp_path, tmp_path / "a"))
    assert (tmp_path / "a" / "$G" / "x").read_bytes() == b"1"
    third.close()


def test_a_store_of_its_own_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a" / "$G").mkdir(parents=True)
    with pytest.raises(SettingsError, match="contains another store: a journal needs an empty directory"):
        opened(settings(tmp_path, tmp_path / "a"))
    assert not (tmp_path / "journal").exists()
    assert (tmp_path / "a" / "$G").exists()


def test_a_cache_is_not_served_without_its_journal(tmp_path: Path) -> None:
    require_no_mark(tmp_path)
    opened(settings(tmp_path, tmp_path / "a")).close()
    assert (tmp_path / "a" / MARK).exists()
    with pytest.raises(SettingsError, match=r"is a cache of the journal file://.*: pass it as --journal"):
        require_no_mark(tmp_path / "a")


def test_wrong_credentials_are_refused_at_the_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []
    open_journal = opened_head.open_journal

    def counted(found: Settings) -> HeadJournal:
        attempts.append(found.standby)
        assert len(attempts) == len(set(attempts)), "tried again"
        return open_journal(found)

    monkeypatch.setattr(opened_head, "open_journal", counted)
    with journal_cluster(size=1) as servers:
        address = f"nats://journal:wrong@127.0.0.1:{servers.ports[0]}/LAKE"
        for standby in (False, True):
            found = replace(settings(tmp_path, tmp_path / "a"), journal=address, standby=standby)
            with pytest.raises(JournalError, match="its servers refuse the credentials") as error:
                opened(found)
            assert "wrong" not in str(error.value)
    assert attempts == [False, True]
    assert list((tmp_path / "a").iterdir()) == []


def test_an_address_of_servers_gives_all_of_them_the_login() -> None:
    assert servers_of("nats://me:pw@a:1,b:2/LAKE") == (("nats://me:pw@a:1", "nats://me:pw@b:2"), "LAKE")
    assert servers_of("tls://a") == (("tls://a",), DEFAULT_NAME)
    with pytest.raises(SettingsError, match="not a valid journal name"):
        servers_of("nats://a/LAKE.x")
