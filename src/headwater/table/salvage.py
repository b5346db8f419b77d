"""Decides which files of a table to use again when its Delta log does not name all that is needed. Pure code.

A file that a lost commit added holds messages that no other referenced file has, or it took the place of
files that are gone. Files are never changed, so each one that passes its checksums is right about the
messages it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyroaring import BitMap64

from headwater.table.datafile import DataFile
from headwater.table.found_file import FoundFile


class Salvage(NamedTuple):
    """What one commit must do."""

    add: list[DataFile]
    remove: list[DataFile]
    missing: BitMap64
    """Sequences that are needed and in no file."""


def plan(
    live: BitMap64, remaining: BitMap64, referenced: Sequence[FoundFile], found: Sequence[FoundFile]
) -> Salvage:
    """Return which found files to add, so that the table holds what is live and not remaining.

    `referenced` are the files that the log names, each with what can be read of it: nothing where it is gone.
    Of those, only such go as a file that is added replaces wholly.
    """
    kept = {each.file.path: each for each in referenced}
    added: dict[str, FoundFile] = {}
    needed = live - remaining
    missing = needed - _all(kept.values())
    while missing:
        best = max(found, key=lambda each: (len(each.seqs & missing), each.file.path), default=None)
        if best is None or not best.seqs & missing:
            break
        found = [each for each in found if each is not best]
        held = {**kept, **added}
        replaced = [each for each in held.values() if each.file.overlaps(best.file)]
        if any((each.seqs & needed) - best.seqs for each in replaced):
            continue
        for each in replaced:
            kept.pop(each.file.path, None)
            added.pop(each.file.path, None)
        added[best.file.path] = best
        missing = needed - _all([*kept.values(), *added.values()])
    removed = [each.file for each in referenced if each.file.path not in kept]
    return Salvage([each.file for each in added.values()], removed, missing)


def ranges(seqs: BitMap64) -> list[tuple[int, int]]:
    """Return sequences as ranges, first and last of each included."""
    found: list[tuple[int, int]] = []
    rest = seqs.copy()
    while rest:
        first = rest.min()
        step, last = 1, first
        while rest.contains_range(last + 1, last + 1 + step):
            last += step
            step *= 2
        while step > 1:
            step //= 2
            if rest.contains_range(last + 1, last + 1 + step):
                last += step
        found.append((first, last))
        rest.remove_range(first, last + 1)
    return found


def shown(seqs: BitMap64, most: int = 5) -> str:
    """Return sequences as text."""
    found = ranges(seqs)
    said = [str(first) if first == last else f"{first} to {last}" for first, last in found[:most]]
    return ", ".join(said) + (f" and {len(found) - most} more ranges" if len(found) > most else "")


def _all(files: Iterable[FoundFile]) -> BitMap64:
    seqs = BitMap64()
    for each in files:
        seqs |= each.seqs
    return seqs
