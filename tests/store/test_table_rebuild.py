"""The files that a table needs in addition to the log are chosen, with matching transactions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyroaring import BitMap64

from headwater.model.adopted import Adopted
from headwater.store.quarantine import Quarantine
from headwater.store.table_rebuild import Logged, choose, rebuild
from headwater.stream.store import ADOPTION, FOLD
from headwater.table import Table
from headwater.table.datafile import DataFile
from headwater.table.found_file import FoundFile
from store.stores import DISK, flip
from table.samples import columns, everything


def found(name: str, seqs: Iterable[int]) -> FoundFile:
    held = BitMap64(seqs)
    return FoundFile(DataFile(name, 0, len(held), held.min(), held.max(), 10, 0, 999), held)


def logged(*batches: range, adopted: tuple[Adopted, ...] = ()) -> Logged:
    return Logged([BitMap64(batch) for batch in batches], adopted)


def adopted(name: str, first: int, last: int) -> Adopted:
    return Adopted(name, last - first + 1, first, last, 0, 0, 0, 0, 1, "a", "a", {})


def test_what_the_log_does_not_hold_comes_from_files() -> None:
    files = [found("a", range(1, 11)), found("b", range(11, 21)), found("c", range(21, 31))]
    chosen = choose(logged(range(21, 26), range(26, 31), range(31, 35)), files, [])
    assert [each.file.path for each in chosen.files] == ["a", "b"]
    assert chosen.transactions == {FOLD: 20, ADOPTION: 20}


def test_a_file_that_reaches_into_the_log_takes_its_batches_over() -> None:
    files = [found("a", range(1, 21))]
    chosen = choose(logged(range(11, 16), range(16, 21), range(21, 26)), files, [])
    assert chosen.transactions == {FOLD: 20, ADOPTION: 20}


def test_an_adopted_file_behind_the_log_leaves_the_log_as_it_is() -> None:
    files = [found("a", range(1, 11)), found("copied", range(21, 31))]
    there = logged(range(11, 21), adopted=(adopted("copied", 21, 30),))
    assert choose(there, files, []).transactions == {FOLD: 10, ADOPTION: 30}


def test_a_file_that_waits_in_staging_is_not_counted_as_adopted() -> None:
    there = logged(range(11, 21), adopted=(adopted("copied", 21, 30),))
    assert choose(there, [found("a", range(1, 11))], ["copied"]).transactions == {FOLD: 10, ADOPTION: 10}


def test_a_table_is_rebuilt_with_every_file_that_is_whole(tmp_path: Path) -> None:
    store = tmp_path / "store"
    table = Table.open(store / "S" / "table", DISK)
    for start in (1, 11, 21):
        table.commit(add=[table.write(columns(range(start, start + 10)))], transactions={FOLD: start + 9})
    expected = [message for message in everything(table) if message.seq > 10]
    flip(store / "S" / "table" / table.files[0].path, 8)
    flip(store / "S" / "table" / "_delta_log" / "00000000000000000002.json")
    quarantine = Quarantine(store, DISK)
    rebuilt = rebuild(store / "S", DISK, "S", quarantine)
    assert len(rebuilt.damaged) == 1
    again = Table.open(store / "S" / "table", DISK)
    assert everything(again) == expected
    assert again.transaction(FOLD) == 30
    assert (quarantine.folder / "S" / "table" / "_delta_log").is_dir()
    assert (quarantine.folder / "S" / "table" / rebuilt.damaged[0]).is_file()
