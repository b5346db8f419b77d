"""Hashes that do not depend on addresses: a set of objects has the same order in each run of a seed.

By default the hash of an object is its address. delta-rs allocates on its own threads: two runs of one seed
may have different addresses, and a set of consumers or tasks another order.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

OURS = ("headwater", "simulation")
DEFAULT: Any = object.__hash__
_NAME = "_number_in_this_run"
_numbers = itertools.count(1)
_without_dict: dict[int, tuple[int, object]] = {}
"""Number of each object that takes no attribute. The reference keeps its address from being used again."""


def numbered(obj: Any) -> int:
    """Return the number of an object: numbers are given in the order in which objects are first hashed."""
    try:
        return int(object.__getattribute__(obj, _NAME))
    except AttributeError:
        pass
    if (known := _without_dict.get(id(obj))) is not None:
        return known[0]
    number = next(_numbers)
    try:
        object.__setattr__(obj, _NAME, number)
    except AttributeError:
        _without_dict[id(obj)] = number, obj
    return number


class NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is a number."""

    __hash__ = numbered


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is a number."""

    __hash__ = numbered


def number_objects() -> None:
    """Give a number to the objects of every class of ours that is loaded and has the default hash."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OURS:
            for value in list(vars(module).values()):
                if isinstance(value, type) and _has_default_hash(value):
                    value.__hash__ = numbered  # type: ignore[assignment]


def _has_default_hash(kind: type) -> bool:
    return kind.__hash__ is DEFAULT and str(kind.__module__).partition(".")[0] in OURS
