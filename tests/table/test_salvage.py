"""Files that no commit names are used again for exactly what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap64

from headwater.table.datafile import DataFile
from headwater.table.found_file import FoundFile
from headwater.table.salvage import plan, ranges, shown

NONE = BitMap64()


def found(name: str, seqs: Iterable[int], *, damaged: bool = False) -> FoundFile:
    held = BitMap64(seqs)
    first, last = held.min(), held.max()
    file = DataFile(name, 0, len(held), first, last, 10, 0, 999)
    return FoundFile(file, NONE if damaged else held)


def names(files: list[DataFile]) -> list[str]:
    return [file.path for file in files]


def test_a_file_of_a_lost_commit_is_added() -> None:
    one, two = found("one", range(1, 11)), found("two", range(11, 21))
    chosen = plan(BitMap64(range(1, 21)), NONE, [one], [two])
    assert (names(chosen.add), chosen.remove, chosen.missing) == (["two"], [], NONE)


def test_what_the_log_holds_needs_no_file() -> None:
    one, two = found("one", range(1, 11)), found("two", range(11, 21))
    chosen = plan(BitMap64(range(1, 21)), BitMap64(range(11, 21)), [one], [two])
    assert (chosen.add, chosen.remove, chosen.missing) == ([], [], NONE)


def test_a_joined_file_takes_the_place_of_files_that_are_gone() -> None:
    gone, there = found("gone", range(1, 11), damaged=True), found("there", range(11, 21))
    joined = found("joined", [n for n in range(1, 21) if n != 3])
    live = BitMap64(range(1, 21)) - BitMap64([3])
    chosen = plan(live, NONE, [gone, there], [joined])
    assert names(chosen.add) == ["joined"]
    assert sorted(names(chosen.remove)) == ["gone", "there"]
    assert not chosen.missing


def test_a_file_that_would_take_messages_away_is_not_used() -> None:
    gone, there = found("gone", range(1, 11), damaged=True), found("there", range(11, 21))
    shorter = found("shorter", range(1, 15))
    chosen = plan(BitMap64(range(1, 21)), NONE, [gone, there], [shorter])
    assert (chosen.add, chosen.remove) == ([], [])
    assert ranges(chosen.missing) == [(1, 10)]


def test_of_overlapping_files_one_is_used() -> None:
    parts = [found("a", range(1, 11)), found("b", range(11, 21)), found("joined", range(1, 21))]
    chosen = plan(BitMap64(range(1, 21)), NONE, [], parts)
    assert names(chosen.add) == ["joined"]


def test_sequences_are_shown_as_ranges() -> None:
    assert ranges(BitMap64([1, 2, 3, 7, 9, 10])) == [(1, 3), (7, 7), (9, 10)]
    assert shown(BitMap64([1, 2, 3, 7])) == "1 to 3, 7"
    assert shown(BitMap64(range(1, 40, 2))) == "1, 3, 5, 7, 9 and 15 more ranges"
