"""One stream's files are checked without opening the stream."""

from __future__ import annotations

from pathlib import Path

from headwater.store.online_check import OnlineCheck, damaged_records
from headwater.store.survey import StreamDirectory, read_homes
from store import stores


async def orders(store: Path) -> StreamDirectory:
    await stores.make(store)
    (home,) = (home for home in read_homes(stores.DISK, store) if home.name == "ORDERS")
    return home


async def test_a_stream_that_was_deleted_meanwhile_has_no_problems(tmp_path: Path) -> None:
    home = await orders(tmp_path)
    check = OnlineCheck(home)
    assert check.is_there
    stores.flip(home.path / "checkpoint")

    def delete(step: str) -> None:
        if step == "table":
            (home.path / "identity.json").unlink()

    assert check.run(delete) == []


async def test_a_file_that_the_table_names_and_that_is_missing_is_found(tmp_path: Path) -> None:
    home = await orders(tmp_path)
    stores.data_files(tmp_path)[0].unlink()
    (found,) = OnlineCheck(home).run(lambda step: None)
    assert (found.kind, found.where.endswith(".parquet")) == ("data", True)


async def test_the_end_of_the_newest_segment_is_left_out(tmp_path: Path) -> None:
    home = await orders(tmp_path)
    segment = sorted((home.path / "log").iterdir())[-1]
    length = segment.stat().st_size
    stores.flip(segment, length - 5)
    number = int(segment.stem)
    assert damaged_records(stores.DISK, home.path / "log", number, length, True) == []
    assert len(damaged_records(stores.DISK, home.path / "log", number, length, False)) == 1
