"""What was adopted is kept when the log is damaged before it or in the batch that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.model.copied import Copied
from headwater.model.cursor import Cursor
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource
from stream.replica.test_replica import held, opened, publish, staged

SOURCE = StreamSource(name="ORIGIN")
WITH_SOURCE = StreamConfig(name="T", subjects=("t",), sources=(SOURCE,))
ROWS = 50


class _Crash(BaseException):
    pass


def _crash(*_: Any, **__: Any) -> None:
    raise _Crash


def segment(directory: Path) -> Path:
    return sorted((directory / "T" / "log").glob("*.log"))[-1]


async def damaged_log(directory: Path, damage: str, crashes: bool, more: bool, step: str = "adopt") -> None:
    """Leave a stream that adopted a file, with a flipped bit before that or in the batch that names it.

    With `crashes` it crashed before that step of its table.
    """
    async with opened(directory, WITH_SOURCE) as stream:
        await publish(stream, 3)
        sizes = [segment(directory).stat().st_size]
        await publish(stream, 4)
        sizes.append(segment(directory).stat().st_size)
        copied = Copied(SOURCE.name, "id-1", 100, 0, 1, 1, 0)
        file = msgspec.structs.replace(staged(directory, list(range(ROWS))), copied=copied)
        with pytest.MonkeyPatch.context() as patch:
            if crashes:
                patch.setattr(stream._store.table, step, _crash)
            try:
                cursor = Cursor("id-1", 100 + ROWS - 1).encode()
                await stream.replica.adopt(SOURCE.index_name, b"", [file], cursor, mirrored=False)
            except _Crash:
                assert crashes
        sizes.append(segment(directory).stat().st_size)
        if more:
            await publish(stream, 2)
    first, last = sizes[:2] if damage == "before" else sizes[1:]
    content = bytearray(segment(directory).read_bytes())
    content[(first + last) // 2] ^= 4
    segment(directory).write_bytes(content)


@pytest.mark.parametrize(("crashes", "more"), [(False, True), (False, False), (True, False)])
async def test_what_was_adopted_after_the_damage_in_a_log_is_not_lost(
    tmp_path: Path, crashes: bool, more: bool
) -> None:
    await damaged_log(tmp_path, "before", crashes, more)
    kept = [1, 2, 3, *range(8, 8 + ROWS + 2 * more)]
    for _ in range(2):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            state = await stream.reading.state()
            assert state.lost is not None
            assert state.lost.msgs == (4, 5, 6, 7)
            assert [m.seq for m in await held(stream)] == kept
            assert Cursor.decode(stream.replica.cursor(SOURCE.index_name)) == Cursor("id-1", 149)
            await stream.checkpoint()


@pytest.mark.parametrize("more", [True, False])
async def test_an_adoption_whose_batch_is_damaged_is_found_in_the_table_and_not_copied_twice(
    tmp_path: Path, more: bool
) -> None:
    await damaged_log(tmp_path, "adoption", False, more)
    for _ in range(2):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            assert [m.seq for m in await held(stream)] == list(range(1, 8 + ROWS + 2 * more))
            assert (await stream.reading.state()).lost is None
            assert Cursor.decode(stream.replica.cursor(SOURCE.index_name)) == Cursor("id-1", 149)
            await stream.checkpoint()


async def test_an_adoption_whose_batch_is_damaged_is_found_though_no_commit_names_it(tmp_path: Path) -> None:
    """The engine crashed after the file was moved into the table's folder and before the Delta commit."""
    await damaged_log(tmp_path, "adoption", True, False, "commit")
    for _ in range(2):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            assert [m.seq for m in await held(stream)] == list(range(1, 8 + ROWS))
            assert (await stream.reading.state()).lost is None
            assert Cursor.decode(stream.replica.cursor(SOURCE.index_name)) == Cursor("id-1", 149)
            await stream.checkpoint()


async def test_a_staged_file_that_a_damaged_batch_may_have_named_is_kept_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await damaged_log(tmp_path, "adoption", True, False)
    home = tmp_path / "T"
    (staged_before,) = (home / "staging").iterdir()
    content = staged_before.read_bytes()
    for _ in range(3):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            state = await stream.reading.state()
            assert state.lost is not None
            assert len(state.lost.msgs) == ROWS
            assert not list((home / "staging").iterdir())
            assert (home / "unclaimed" / staged_before.name).read_bytes() == content
            await stream.checkpoint()
    assert "1 staged files that its damaged log may have named are kept in unclaimed/" in caplog.text


async def test_staged_files_are_swept_where_the_log_is_only_torn(tmp_path: Path) -> None:
    async with opened(tmp_path, WITH_SOURCE) as stream:
        await publish(stream, 3)
        staged(tmp_path, list(range(ROWS)))
    with segment(tmp_path).open("ab") as file:
        file.write(b"\0" * 10)
    async with opened(tmp_path, WITH_SOURCE) as stream:
        assert (await stream.reading.state()).lost is None
    assert not list((tmp_path / "T" / "staging").iterdir())
    assert not (tmp_path / "T" / "unclaimed").exists()
