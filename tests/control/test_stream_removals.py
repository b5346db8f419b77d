"""A deletion is complete after a crash at any step, and only a recorded one removes files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from control.domains import are, config, folders, has_none, on, refused
from headwater.control.directories import Directories
from headwater.control.domain import Domain
from headwater.disk import RealDisk
from headwater.errors import ApiError, DiskError


async def test_a_deleted_stream_is_gone_with_its_files(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.delete_stream("a")
        assert await refused(domain.delete_stream("a")) == 10059
        with pytest.raises(ApiError):
            domain.stream("a")

    await on(tmp_path, work)
    assert folders(tmp_path) == []
    await on(tmp_path, has_none)


async def test_an_orphan_can_be_deleted_on_request(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))

    async def forget(domain: Domain) -> None:
        await domain.create_stream(config("b"))
        domain._catalog.delete("$G", "b")

    async def delete(domain: Domain) -> None:
        assert list(domain.offline) == ["b"]
        await domain.delete_stream("b")
        await domain.create_stream(config("b"))

    await on(tmp_path, first)
    await on(tmp_path, forget)
    await on(tmp_path, delete)
    await on(tmp_path, lambda domain: are(domain, ["a", "b"]))
    assert folders(tmp_path) == ["a", "b"]


async def test_a_crash_between_recorded_deletion_and_trash_still_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise DiskError(tmp_path, "rename", errno.EIO)

    async def crash(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))
        with monkeypatch.context() as patch:
            patch.setattr(Directories, "discard", broken)
            await domain.delete_stream("a")
        await domain.create_stream(config("a", description="second"))

    async def again(domain: Domain) -> None:
        assert domain.names() == ["a", "b"]
        assert domain.stream("a").config.description == "second"

    await on(tmp_path, crash)
    assert len(folders(tmp_path)) == 3
    await on(tmp_path, again)
    assert len(folders(tmp_path)) == 2


async def test_a_stream_deleted_while_its_identity_cannot_be_read_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(self: RealDisk, path: Path) -> bytes:
        if path.name == "identity.json":
            raise DiskError(path, "read", errno.EIO)
        return path.read_bytes()

    async def delete(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))
        with monkeypatch.context() as patch:
            patch.setattr(RealDisk, "read_all", unreadable)
            await domain.delete_stream("a")
        assert domain.names() == ["b"]

    await on(tmp_path, delete)
    await on(tmp_path, lambda domain: are(domain, ["b"]))
    assert folders(tmp_path) == ["b"]


async def test_a_directory_that_comes_back_after_its_stream_was_deleted_is_kept(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))

    async def delete(domain: Domain) -> None:
        await domain.delete_stream("a")

    async def orphaned(domain: Domain) -> None:
        assert list(domain.offline) == ["a"]

    await on(tmp_path, first)
    (tmp_path / "$G" / "a").rename(tmp_path / "away")
    await on(tmp_path, delete)
    (tmp_path / "away").rename(tmp_path / "$G" / "a")
    await on(tmp_path, orphaned)
    assert folders(tmp_path) == ["a", "b"]
