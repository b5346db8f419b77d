"""How tests are shared out to parallel workers (`pytest -n 4 --dist loadgroup --no-loadscope-reorder`).

Tests of one group run in one worker, one after the other, so that they share a server, a site or a Spark. A
group is a module, or a folder whose tests share something that is expensive to start. Groups start in the
order of `FIRST`: what takes longest begins first, so that no worker is left with it at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDERS = ("conformance",)
"""Folders whose tests are one group."""
FIRST = (
    "on_spark/test_cinemas.py",
    "conformance",
    "durability",
    "on_spark",
    "interop",
    "simulation",
    "stan",
    "cli",
    "replication",
)
"""Groups by the start of their name, longest first; all others come after them."""


def group_of(path: str) -> str:
    """Return the group of a test module, named by its path below the tests."""
    folder = path.partition("/")[0]
    return folder if folder in FOLDERS else path


def rank(group: str) -> int:
    """Return the place of a group in the order of starting."""
    places = [place for place, first in enumerate(FIRST) if group.startswith(first)]
    return min(places, default=len(FIRST))


def arrange(items: list[pytest.Item], root: Path) -> None:
    """Mark each test with its group, and bring the groups into the order of starting."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(_below(item.path, root))))
    items.sort(key=lambda item: rank(group_of(_below(item.path, root))))


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
