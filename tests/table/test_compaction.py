"""Small files never pile up, dead rows go, and a row is rewritten only a few times."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.table.compaction import CompactionPlan, CompactionSettings, dead_rows, most_files, plan
from headwater.table.datafile import DataFile

SETTINGS = CompactionSettings(target_file_bytes=1_000_000, target_file_rows=10_000, max_small_files=16)


def file(number: int, rows: int, first: int, size_bytes: int | None = None) -> DataFile:
    size = rows * 100 if size_bytes is None else size_bytes
    return DataFile(f"data/{number}", first, rows, first, first + rows - 1, size, 0, 0)


class Model:
    """A table without bytes: folds append files, compaction merges and drops them."""

    def __init__(self) -> None:
        self.files: list[DataFile] = []
        self.last_seq = 0
        self.folded_rows = 0
        self.rewritten_rows = 0
        self._number = 0

    def fold(self, rows: int) -> None:
        self.files.append(self._file(rows, self.last_seq + 1, self.last_seq + rows))
        self.last_seq += rows
        self.folded_rows += rows

    def apply(self, todo: CompactionPlan, dead: dict[str, int]) -> None:
        gone = {file.path for file in todo.drop}
        self.files = [file for file in self.files if file.path not in gone]
        for run in todo.rewrite:
            at = self.files.index(run[0])
            assert self.files[at : at + len(run)] == list(run), "only neighbours are merged"
            self.files[at : at + len(run)] = self._merged(run, dead)

    def settle(self, dead: dict[str, int] | None = None, first_seq: int = 1) -> None:
        for _ in range(1000):
            todo = plan(self.files, dead or {}, first_seq, SETTINGS)
            if not todo:
                return
            self.apply(todo, dead or {})
        raise AssertionError("compaction does not come to an end")

    def _merged(self, run: tuple[DataFile, ...], dead: dict[str, int]) -> list[DataFile]:
        """Return the files that a rewrite makes: all of target size but the last."""
        live = sum(file.rows - dead.get(file.path, 0) for file in run)
        self.rewritten_rows += live
        parts = [SETTINGS.target_file_rows] * (live // SETTINGS.target_file_rows)
        parts += [live % SETTINGS.target_file_rows] if live % SETTINGS.target_file_rows else []
        spans = [run[0].first_seq, *([run[-1].last_seq] * len(parts))]
        files = []
        first = spans[0]
        for index, rows in enumerate(parts):
            last = run[-1].last_seq if index == len(parts) - 1 else first + rows - 1
            files.append(self._file(rows, first, last))
            first = last + 1
        return files

    def _file(self, rows: int, first: int, last: int) -> DataFile:
        self._number += 1
        return replace(file(self._number, rows, first), last_seq=last)


def test_nothing_to_do_is_an_empty_plan() -> None:
    assert not plan([], {}, 1, SETTINGS)
    assert not plan([file(1, 8000, 1), file(2, 100, 8001)], {}, 1, SETTINGS)


def test_files_below_the_first_sequence_and_wholly_dead_ones_go_without_reading() -> None:
    files = [file(1, 8000, 1), file(2, 8000, 8001), file(3, 8000, 16_001)]
    todo = plan(files, {"data/2": 8000}, 8001, SETTINGS)
    assert todo == CompactionPlan((files[0], files[1]), ())


def test_a_file_that_reaches_past_the_first_sequence_stays() -> None:
    assert not plan([file(1, 8000, 1)], {"data/1": 3999}, 4000, SETTINGS)


def test_a_file_half_dead_is_rewritten() -> None:
    files = [file(1, 9000, 1), file(2, 9000, 9001)]
    assert plan(files, {"data/1": 4500}, 1, SETTINGS).rewrite == ((files[0],),)


def test_dead_rows_of_an_overdue_file_go_however_few() -> None:
    files = [file(1, 8000, 1), file(2, 8000, 8001)]
    assert not plan(files, {"data/1": 1}, 1, SETTINGS)
    assert plan(files, {"data/1": 1}, 1, SETTINGS, overdue=["data/1", "data/2"]).rewrite == ((files[0],),)


def test_a_file_half_dead_waits_for_the_budget() -> None:
    files = [file(1, 10_000, 1), file(2, 10_000, 10_001)]
    dead = {"data/1": 5_000, "data/2": 8_000}
    both = plan(files, dead, 1, SETTINGS)
    assert (both.rewrite, both.erasing_bytes) == (((files[0],), (files[1],)), 700_000)
    deadest = plan(files, dead, 1, SETTINGS, budget_bytes=200_000)
    assert (deadest.rewrite, deadest.erasing_bytes) == (((files[1],),), 200_000)
    assert not plan(files, dead, 1, SETTINGS, budget_bytes=199_999)
    overdue = plan(files, dead, 1, SETTINGS, overdue=["data/1"], budget_bytes=0)
    assert (overdue.rewrite, overdue.erasing_bytes) == (((files[0],),), 0), "an age goes at any cost"


def test_small_neighbours_between_full_files_are_merged_at_once() -> None:
    files = [file(1, 8000, 1), file(2, 10, 8001), file(3, 10, 8011), file(4, 8000, 8021)]
    assert plan(files, {}, 1, SETTINGS).rewrite == ((files[1], files[2]),)


def test_dead_rows_are_those_of_the_file_and_not_of_its_gaps() -> None:
    sparse = DataFile("x", 1, 4, 1, 10, 10, 0, 0)
    gaps = BitMap64([2, 3, 4, 5, 6, 7])
    assert dead_rows(sparse, gaps, 1) == 0
    assert dead_rows(sparse, gaps | BitMap64([8]), 1) == 1
    assert dead_rows(sparse, gaps, 8) == 1
    assert dead_rows(sparse, gaps, 11) == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6000), min_size=1, max_size=150))
def test_the_number_of_files_is_bounded_whatever_is_folded(folds: list[int]) -> None:
    model = Model()
    for rows in folds:
        model.fold(rows)
        model.settle()
        weight = sum(file.rows for file in model.files) / SETTINGS.target_file_rows
        assert len(model.files) <= most_files(weight, SETTINGS)
    assert sum(file.rows for file in model.files) == sum(folds)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 12_000), min_size=1, max_size=40), st.data())
def test_the_number_of_files_is_bounded_whatever_is_deleted(folds: list[int], data: st.DataObject) -> None:
    model = Model()
    for rows in folds:
        model.fold(rows)
    dead = {f.path: data.draw(st.integers(0, f.rows)) for f in model.files}
    first_seq = data.draw(st.integers(1, model.last_seq))
    model.settle(dead, first_seq)
    live = sum(f.rows - dead.get(f.path, 0) for f in model.files)
    assert len(model.files) <= most_files(live / SETTINGS.target_file_rows, SETTINGS)
    assert all(f.last_seq >= first_seq for f in model.files)
    assert all(dead.get(f.path, 0) < f.rows / 2 for f in model.files)


def test_equal_folds_are_rewritten_once_per_tier() -> None:
    model = Model()
    most = 0
    for _ in range(2000):
        model.fold(20)
        model.settle()
        most = max(most, len(model.files))
    # From 20 rows to half of 10,000 are four growths by four and a part of a fifth.
    assert model.rewritten_rows <= 5 * model.folded_rows
    assert most <= 2 * 4 + 5 * 3


def test_one_round_for_every_five_folds_never_writes_a_large_file_again() -> None:
    model = Model()
    model.fold(4_000)
    large = model.files[0]
    for number in range(2_000):
        model.fold(2)
        if number % 5 == 0:
            model.apply(plan(model.files, {}, 1, SETTINGS), {})
    assert model.files[0] == large
    assert len(model.files) <= SETTINGS.max_small_files + 5
    assert model.rewritten_rows <= 8 * 4_000


def test_ten_million_messages_lie_in_few_files() -> None:
    bound = most_files(10_000_000 * 150 / (128 << 20), CompactionSettings())
    assert bound <= 80
