"""A receipt names complete staged files of its own target, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from headwater.disk import RealDisk
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.table.staging import OBJECT_STAGING, LocalStaging, ObjectStaging
from headwater.upstreams.staging import (
    StagedFileError,
    StagingSweep,
    check_adopted,
    open_staged,
    read_whole,
    remove_staged,
)
from stream.replica.test_replica import opened, staged


@pytest.fixture
def staging(tmp_path: Path) -> LocalStaging:
    """Return a staging directory with one file, and a secret next to it."""
    directory = tmp_path / "staging"
    directory.mkdir()
    (directory / "file.parquet").write_bytes(b"messages")
    (tmp_path / "secret").write_bytes(b"secret")
    return LocalStaging(directory, RealDisk())


def test_a_file_is_found_by_its_bare_name(staging: LocalStaging) -> None:
    assert open_staged(staging, "file.parquet")[1] == 8
    assert read_whole(staging, "file.parquet") == b"messages"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../secret",
        "/etc/passwd",
        "a/../../secret",
        "sub/file",
        ".hidden",
        "a\\b",
        "a\0b",
        "a b",
    ],
)
def test_a_path_is_no_name(staging: LocalStaging, name: str) -> None:
    with pytest.raises(StagedFileError, match="not the name"):
        open_staged(staging, name)


def test_links_folders_and_pipes_are_no_files(staging: LocalStaging) -> None:
    (staging.directory / "link").symlink_to(staging.directory.parent / "secret")
    (staging.directory / "folder").mkdir()
    os.mkfifo(staging.directory / "pipe")
    for name in ("link", "folder", "pipe", "absent"):
        with pytest.raises(StagedFileError, match="not among"):
            open_staged(staging, name)


def test_a_file_must_be_the_one_that_its_sums_are_of(tmp_path: Path) -> None:
    file, staging = staged(tmp_path, list(range(50))), tmp_path / "T" / "staging"
    local = LocalStaging(staging, RealDisk())
    check_adopted(local, [file])
    for wrong in ({"rows": 49}, {"last_offset": 60}, {"first_offset": 1}, {"size_bytes": 1}):
        with pytest.raises(StagedFileError):
            check_adopted(local, [msgspec.structs.replace(file, **wrong)])
    path = staging / file.name
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(StagedFileError, match="checksum"):
        check_adopted(local, [file])
    path.write_bytes(b"")
    with pytest.raises(StagedFileError, match="bytes"):
        check_adopted(local, [file])
    path.unlink()
    with pytest.raises(StagedFileError, match="not among"):
        check_adopted(local, [file])


def test_one_wrong_file_among_many_in_a_bucket_refuses_all(tmp_path: Path) -> None:
    files = [
        staged(tmp_path, list(range(10 * number, 10 * number + 5)), f"f{number}") for number in range(20)
    ]
    folder = tmp_path / "bucket" / OBJECT_STAGING
    folder.parent.mkdir()
    shutil.copytree(tmp_path / "T" / "staging", folder)
    objects = Bucket(BucketAddress(f"file://{folder.parent}"))
    staging = ObjectStaging(objects, tmp_path / "stands-for-it")
    check_adopted(staging, files)
    wrong = [*files[:7], msgspec.structs.replace(files[7], rows=1), *files[8:]]
    with pytest.raises(StagedFileError, match=f"{files[7].name} contains other messages"):
        check_adopted(staging, wrong)
    (folder / files[19].name).unlink()
    with pytest.raises(StagedFileError, match="not among"):
        check_adopted(staging, files)


async def test_only_staged_files_without_a_pending_receipt_are_removed(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        file, other = staged(tmp_path, [0, 1]), staged(tmp_path, [0, 1, 2], "other")
        outside = tmp_path / "outside"
        outside.write_bytes(b"kept")
        stream._store.adoptions.announce([file])
        await remove_staged(stream, [file.name, other.name, "../../outside", str(outside), "absent"])
        assert outside.exists()
        assert [path.name for path in (stream.directory / "staging").iterdir()] == [file.name]
        stream._store.adoptions.withdraw([file])


async def test_files_that_a_task_left_are_removed_after_two_rounds(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        left, awaited, given = (staged(tmp_path, [0], name) for name in ("left", "awaited", "given"))
        stream._store.adoptions.announce([awaited])
        sweep = StagingSweep(lambda work: work == "given")
        assert await sweep.round([stream]) == 0
        assert await sweep.round([]) == 0  # somebody was at work on it
        assert await sweep.round([stream]) == 0
        fresh = staged(tmp_path, [0, 1], "fresh")
        assert await sweep.round([stream]) == 1
        names = {path.name for path in (stream.directory / "staging").iterdir()}
        assert names == {awaited.name, given.name, fresh.name}
        assert left.name not in names
        stream._store.adoptions.withdraw([awaited])
