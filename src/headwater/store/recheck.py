"""Checks again before anything is reported, because files that a running engine changes may look damaged."""

from __future__ import annotations

import time
from collections.abc import Callable
from errno import ENOENT, ENOTDIR, ESTALE

from deltalake.exceptions import DeltaError

from headwater.backoff import wait_s
from headwater.errors import DiskError
from headwater.store.finding import Finding, Kind, problem

LOOKS = 4
PAUSE_S = 0.25
LONGEST_S = 1.0
"""The pause before the last look."""

_GONE = (ENOENT, ENOTDIR, ESTALE)
_HARDWARE = "Check the disk and the permissions"

Look = Callable[[], list[Finding]]


class FilesGoneError(Exception):
    """Files disappeared during every attempt, so nothing can be said about them."""


def confirmed(look: Look, looks: int = LOOKS, pause_s: float = PAUSE_S) -> list[Finding]:
    """Return what every look finds at the same place; the pauses between looks double.

    A file that is gone when it is read was replaced since it was listed. That look does not count.
    """
    found: list[Finding] | None = None
    counted = 0
    for number in range(looks):
        if number:
            time.sleep(wait_s(number, pause_s, LONGEST_S))
        try:
            seen = look()
        except (DiskError, OSError) as error:
            if error.errno in _GONE:
                continue
            seen = [problem(Kind.UNREADABLE, _path(error), error, "It could not be checked", _HARDWARE)]
        except DeltaError:
            continue
        places = {_place(each) for each in seen}
        found = seen if found is None else [each for each in found if _place(each) in places]
        counted += 1
        if not [each for each in found if each.is_problem]:
            return found
    if found is None or counted == 1:
        raise FilesGoneError
    return found


def _place(found: Finding) -> tuple[Kind, str, str]:
    return found.kind, found.stream, found.where


def _path(error: DiskError | OSError) -> str:
    return str(error.path if isinstance(error, DiskError) else error.filename)
