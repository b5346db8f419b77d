"""What is found on every look is reported, what is gone on the second look is not."""

from __future__ import annotations

from errno import EIO, ENOENT
from pathlib import Path

import pytest

from headwater.errors import DiskError
from headwater.store.finding import Finding, Kind, note, problem
from headwater.store.recheck import LOOKS, FilesGoneError, confirmed

DAMAGE = problem(Kind.DATA, "file", "it is damaged", "")


def looks(*results: list[Finding] | Exception) -> list[Finding]:
    left = list(results)

    def look() -> list[Finding]:
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return confirmed(look, pause_s=0)


def test_an_intact_file_is_checked_once() -> None:
    assert looks([]) == []
    assert looks([note("place", "said")]) == [note("place", "said")]


def test_what_is_found_once_is_a_race() -> None:
    assert looks([DAMAGE], []) == []
    assert looks([DAMAGE], [problem(Kind.DATA, "other file", "it is damaged", "")]) == []


def test_what_is_found_on_every_look_is_reported() -> None:
    assert looks(*[[DAMAGE]] * LOOKS) == [DAMAGE]


def test_a_look_in_which_a_file_goes_away_does_not_count() -> None:
    gone = DiskError(Path("file"), "read", ENOENT)
    assert looks(gone, []) == []
    assert looks(gone, [DAMAGE], gone, [DAMAGE]) == [DAMAGE]
    with pytest.raises(FilesGoneError):
        looks(gone, gone, [DAMAGE], gone)


def test_a_disk_that_cannot_read_is_reported() -> None:
    (found,) = looks(*[DiskError(Path("file"), "read", EIO)] * LOOKS)
    assert (found.kind, found.where) == (Kind.UNREADABLE, "file")
