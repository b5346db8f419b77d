"""Removed messages leave files on a budget, and by age only where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.stream.retention.erasure import BUDGET, METADATA_KEY, DeadAges, ErasureBudget, interval_ns
from headwater.stream.stream import Stream
from headwater.table.datafile import DataFile
from stream.streams import SECOND, Workshop, config_of, publish

FILE = DataFile("data/1", 1, 100, 1, 100, 1_000, 0, 0)


def test_what_is_removed_is_earned_once() -> None:
    budget = ErasureBudget()
    budget.earn(0, [], {})
    budget.earn(10, [], {})
    budget.earn(10, [], {})
    assert budget.bytes == BUDGET * 10
    budget.earn(4, [], {})
    assert budget.bytes == BUDGET * 14, "the ledger was made again"
    budget.spend(100)
    assert budget.bytes == 0


def test_what_was_removed_before_a_restart_is_known_by_dead_rows() -> None:
    budget = ErasureBudget()
    budget.earn(5, [FILE], {"data/1": 50})
    assert budget.bytes == 500


@pytest.mark.parametrize(
    ("metadata", "setting", "expected"),
    [
        ({}, None, None),
        ({}, 30.0, 30 * SECOND),
        ({METADATA_KEY: "5s"}, None, 5 * SECOND),
        ({METADATA_KEY: "5s"}, 30.0, 5 * SECOND),
        ({METADATA_KEY: "0s"}, 30.0, 0),
        ({METADATA_KEY: "soon"}, 30.0, 30 * SECOND),
        ({METADATA_KEY: "-1s"}, None, None),
        ({METADATA_KEY: ""}, None, None),
    ],
)
def test_an_age_is_asked_for_by_the_metadata_or_by_the_setting(
    metadata: dict[str, str], setting: float | None, expected: float | None
) -> None:
    assert interval_ns(config_of(metadata=metadata), setting) == expected


def test_files_are_overdue_by_the_time_that_they_have_held_dead_rows() -> None:
    ages = DeadAges()
    assert ages.overdue({"a": 1}, 10, 0) == set()
    assert ages.overdue({"a": 1, "b": 1}, 10, 9) == set()
    assert ages.overdue({"a": 2, "b": 1}, 10, 10) == {"a"}
    assert ages.overdue({"b": 1}, 10, 19) == {"b"}
    assert ages.overdue({"b": 1}, None, 1000) == set()


def file_names(stream: Stream) -> set[str]:
    return {path.name for path in (stream.directory / "table").rglob("*.parquet")}


async def updated(workshop: Workshop, updates: int, **config: Any) -> tuple[int, int]:
    """Return the bytes of files written while keys were updated one by one, and those of the bucket."""
    sizes: dict[str, int] = {}
    async with workshop.stream(subjects=("k.*",), max_msgs_per_subject=1, **config) as stream:
        await publish(stream, *[(b"k.%d" % key, bytes(1000)) for key in range(400)])
        await stream.folder.fold()
        filled = sum(path.stat().st_size for path in (stream.directory / "table").rglob("*.parquet"))
        before = file_names(stream)
        for number in range(updates):
            workshop.clock.advance(31 * SECOND)
            await publish(stream, (b"k.%d" % (number * 7 % 400), bytes(1000)))
            await stream.folder.fold()
            await stream.folder.tidy()
            for path in (stream.directory / "table").rglob("*.parquet"):
                if path.name not in before:
                    sizes.setdefault(path.name, path.stat().st_size)
    return sum(sizes.values()), filled


async def test_updates_of_a_bucket_do_not_write_it_again_and_again(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, erase_interval_s=None, target_file_bytes=1 << 19)
    written, filled = await updated(workshop, 30)
    assert written < filled, "the bucket was not written again once"
    asked, _ = await updated(workshop, 30, name="ASKED", metadata={METADATA_KEY: "30s"})
    assert asked > 10 * filled, "where an age is asked for, each update after it writes it again"
    workshop.close()


async def test_a_bucket_that_is_half_dead_is_written_again(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, erase_interval_s=None, target_file_bytes=1 << 19)
    async with workshop.stream(subjects=("k.*",)) as stream:
        await publish(stream, *[(b"k.%d" % key, bytes(1000)) for key in range(400)])
        await stream.folder.fold()
        before = file_names(stream)
        for seq in range(1, 190):
            await stream.retention.remove(seq * 2)
        await stream.folder.tidy()
        assert file_names(stream) == before
        for seq in range(190, 201):
            await stream.retention.remove(seq * 2)
        await stream.folder.tidy()
        workshop.clock.advance(SECOND)
        await stream.folder.tidy()
        assert not file_names(stream) & before
        assert (await stream.reading.state()).messages == 200
    workshop.close()


async def test_small_dead_rows_do_not_pay_for_large_live_ones(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, erase_interval_s=None, target_file_bytes=1 << 19)
    async with workshop.stream(subjects=("k.*",)) as stream:
        await publish(stream, *[(b"k.%d" % key, b"") for key in range(300)])
        await publish(stream, *[(b"k.%d" % key, bytes(1500)) for key in range(250)])
        await stream.folder.fold()
        # The first look counts dead rows, of which there are none yet.
        await stream.folder.tidy()
        before = file_names(stream)
        await stream.retention.purge(seq=281)
        await publish(stream, (b"k.1", b""))
        await stream.folder.tidy()
        workshop.clock.advance(SECOND)
        await stream.folder.tidy()
        assert before <= file_names(stream)
    workshop.close()
