"""A stream whose table is behind is made whole from its files, or refused; no message vanishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import CorruptionError
from headwater.stream.coverage import uncovered
from stream.streams import Workshop, config_of, publish, seqs_of


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x04
    path.write_bytes(content)


def commits(directory: Path) -> list[Path]:
    return sorted((directory / "S" / "table" / "_delta_log").glob("*.json"))


def data_files(directory: Path) -> list[Path]:
    return sorted((directory / "S" / "table").glob("base_seq=*/**/*.parquet"))


async def folded(workshop: Workshop, times: int) -> None:
    """Have a stream with one file for each two messages, and a log that was trimmed of all."""
    async with workshop.stream() as stream:
        for number in range(times):
            await publish(stream, (b"a.%d" % number, b"one"), (b"b", b"two"))
            await stream.checkpoint()


async def test_a_flipped_bit_in_the_newest_commit_loses_no_message_and_no_file(workshop: Workshop) -> None:
    await folded(workshop, 3)
    flip(commits(workshop.directory)[-1])
    before = data_files(workshop.directory)
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4, 5, 6]
        await stream.folder.tidy()
        await stream.folder.tidy()
        assert await seqs_of(stream) == [1, 2, 3, 4, 5, 6]
        assert set(before) <= set(data_files(workshop.directory))
        await publish(stream, (b"c", b"three"))
        assert (await stream.reading.state()).last_seq == 7
        await stream.checkpoint()
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_commit_that_joined_files_is_made_good_by_the_file_that_took_their_place(
    workshop: Workshop,
) -> None:
    await folded(workshop, 4)
    async with workshop.stream() as stream:
        await stream.folder.tidy()
        assert len(stream._store.table.files) == 1
        await stream.folder.tidy()
    assert len(data_files(workshop.directory)) == 1
    flip(commits(workshop.directory)[-1])
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert len(stream._store.table.files) == 1
        await stream.folder.tidy()
    assert len(data_files(workshop.directory)) == 1


async def test_a_table_that_is_behind_and_lacks_files_is_refused(workshop: Workshop) -> None:
    await folded(workshop, 3)
    newest = commits(workshop.directory)[-1]
    files = data_files(workshop.directory)
    flip(newest)
    last = max(files, key=lambda path: path.stat().st_mtime_ns)
    last.unlink()
    with pytest.raises(CorruptionError, match=r"does not name the files of sequences 5 to 6.*store repair"):
        await workshop.open(config_of())
    assert set(data_files(workshop.directory)) == set(files) - {last}


async def test_a_missing_file_is_reported_and_the_rest_is_served(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await folded(workshop, 2)
    first = min(data_files(workshop.directory), key=lambda path: path.stat().st_mtime_ns)
    first.unlink()
    async with workshop.stream() as stream:
        assert "the file of sequences 1 to 2 is missing" in caplog.text
        with pytest.raises(CorruptionError, match="the file is missing"):
            await stream.reading.message(1)
        message = await stream.reading.message(3)
        assert message is not None


def test_holes_are_found_between_and_inside_of_spans() -> None:
    live = {1, 2, 3, 7, 8, 9, 12}

    def between(first: int, last: int) -> int:
        return sum(first <= seq <= last for seq in live)

    assert uncovered(between, 1, 12, [(1, 3, 3), (7, 9, 3), (12, 12, 1)]) == []
    assert uncovered(between, 1, 12, [(1, 3, 3), (12, 12, 1)]) == [(4, 11)]
    assert uncovered(between, 1, 12, [(1, 9, 5)]) == [(1, 9), (10, 12)]
    assert uncovered(between, 1, 12, []) == [(1, 12)]
