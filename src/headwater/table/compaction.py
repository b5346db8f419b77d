"""Which files to drop and which neighbours to rewrite, so that files stay few and dead rows are erased."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyroaring import BitMap64

from headwater.table.datafile import DataFile

# A file of at least half the target is full: two that are not always fit into one.
FULL = 0.5


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """How large files should be, how many small ones may wait, and how much of a file may be dead."""

    target_file_bytes: int = 128 << 20
    target_file_rows: int = 1_000_000
    fan_in: int = 4
    max_small_files: int = 32
    dead_ratio: float = 0.5

    def __post_init__(self) -> None:
        assert self.target_file_bytes > 0
        assert self.target_file_rows > 0
        assert self.fan_in >= 2
        assert self.max_small_files >= self.fan_in
        assert 0 < self.dead_ratio <= 1


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Files to drop by metadata alone, and runs of neighbours to rewrite, each in one commit."""

    drop: tuple[DataFile, ...]
    rewrite: tuple[tuple[DataFile, ...], ...]
    erasing_bytes: float = 0.0
    """How many live bytes are written again only to erase dead ones, on the budget."""

    def __bool__(self) -> bool:
        return bool(self.drop or self.rewrite)


def dead_rows(file: DataFile, deleted: BitMap64, first_seq: int) -> int:
    """Return how many rows of the file are deleted or below first_seq; gaps count among the deleted."""
    first = max(file.first_seq, first_seq)
    if first > file.last_seq:
        return file.rows
    live = file.last_seq - first + 1 - int(deleted.range_cardinality(first, file.last_seq + 1))
    return max(0, file.rows - live)


def plan(
    files: Sequence[DataFile],
    dead: Mapping[str, int],
    first_seq: int,
    settings: CompactionSettings,
    overdue: Collection[str] = (),
    budget_bytes: float = math.inf,
) -> CompactionPlan:
    """Return what to do; `dead` is by path, and dead rows of `overdue` files are erased however few.

    A file that is half dead is written again if its live bytes are within the budget, the deadest first.
    """
    gone = [f for f in files if f.last_seq < first_seq or dead.get(f.path, 0) >= f.rows]
    dropped = {file.path for file in gone}
    rest = [file for file in files if file.path not in dropped]
    weights = {file.path: _weight(file, dead.get(file.path, 0), settings) for file in rest}
    merges = list(_merges(rest, weights, settings))
    merged = {file.path for run in merges for file in run}
    alone = [file for file in rest if file.path not in merged and dead.get(file.path, 0)]
    merges += [(file,) for file in alone if file.path in overdue]
    spent = 0.0
    for file in sorted(alone, key=lambda file: dead[file.path] / file.rows, reverse=True):
        if file.path in overdue or dead[file.path] < settings.dead_ratio * file.rows:
            continue
        cost = live_bytes(file, dead[file.path])
        if spent + cost <= budget_bytes:
            spent += cost
            merges.append((file,))
    return CompactionPlan(tuple(gone), tuple(sorted(merges, key=lambda run: run[0].first_seq)), spent)


def live_bytes(file: DataFile, dead: int) -> float:
    """Return about how many bytes of a file are alive, as if all rows had the same size."""
    return file.size_bytes * (file.rows - dead) / file.rows


def most_files(total_weight: float, settings: CompactionSettings) -> int:
    """Return the most files that remain when nothing is left to do; live rows are counted in target files.

    Full files weigh at least half a target each. Between two of them is at most one small file. At the end
    are at most `max_small_files`.
    """
    full = int(total_weight / FULL)
    return 2 * full + settings.max_small_files


def _weight(file: DataFile, dead: int, settings: CompactionSettings) -> float:
    """Return the size of the live rows as a part of a target file."""
    live = file.rows - dead
    return max(live_bytes(file, dead) / settings.target_file_bytes, live / settings.target_file_rows)


def _merges(
    files: Sequence[DataFile], weights: Mapping[str, float], settings: CompactionSettings
) -> Iterator[tuple[DataFile, ...]]:
    """Yield the runs of small neighbours to merge."""
    for small, run in _runs(files, lambda file: weights[file.path] < FULL):
        if not small or len(run) < 2:
            continue
        is_tail = run[-1] is files[-1]
        # Nothing is ever added to a run between full files, so it needs not wait for more.
        if not is_tail:
            yield run
        elif len(run) > settings.max_small_files:
            yield _light_end(run, weights)
        else:
            yield from _tiered(run, weights, settings)


def _light_end(run: tuple[DataFile, ...], weights: Mapping[str, float]) -> tuple[DataFile, ...]:
    """Return the longest end of a run in which no file outweighs all behind it; all of it if there is none.

    A file before it outweighs the end, so merging that too would cost more than it joins. What is left
    weighs twice as much from file to file, so that they are few.
    """
    start, total = len(run) - 1, weights[run[-1].path]
    while start and weights[run[start - 1].path] <= total:
        start -= 1
        total += weights[run[start].path]
    return run[start:] if len(run) - start > 1 else run


def _tiered(
    run: Sequence[DataFile], weights: Mapping[str, float], settings: CompactionSettings
) -> Iterator[tuple[DataFile, ...]]:
    """Yield the first stretch, largest files first, that has `fan_in` files of one tier.

    The merged file is a tier above each of them, so a row is rewritten at most once per tier. Smaller files
    of the stretch go along: were they merged first, folds that come as fast as rounds would keep the larger
    ones waiting, until there are too many and all are merged.
    """
    tiers = {file.path: _tier(weights[file.path], settings) for file in run}
    for tier in sorted(set(tiers.values())):

        def is_at_most(file: DataFile, tier: int = tier) -> bool:
            return tiers[file.path] >= tier

        for small, stretch in _runs(run, is_at_most):
            if small and sum(tiers[file.path] == tier for file in stretch) >= settings.fan_in:
                yield stretch
                return


def _tier(weight: float, settings: CompactionSettings) -> int:
    """Return how often a file of this weight must grow by the fan-in before it is full."""
    tier = 0
    while weight < FULL and tier < settings.max_small_files:
        weight *= settings.fan_in
        tier += 1
    return tier


def _runs(
    files: Sequence[DataFile], belongs: Callable[[DataFile], bool]
) -> Iterator[tuple[bool, tuple[DataFile, ...]]]:
    """Yield the longest runs of neighbours for which the condition is the same."""
    for key, run in groupby(files, belongs):
        yield key, tuple(run)
