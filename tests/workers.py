"""The order in which parallel workers take test modules.

`pytest -n 6 --dist loadfile --no-loadscope-reorder` runs the tests of one module in one worker, one after the
other, so that they share a server, a site or a Spark. Modules start in the order of `FIRST`: what takes
longest begins first, so that no worker is left with it at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FIRST = (
    "conformance/test_scenarios.py",
    "on_spark/test_cinemas.py",
    "interop/test_nats_server_replicates.py",
    "docs/test_pages.py",
    "simulation",
    "durability",
    "on_spark",
    "docs",
    "interop",
    "replication/worker/test_transfer.py",
    "upstreams",
    "contracts",
    "journal",
    "test_attach.py",
    "test_app.py",
    "test_seat.py",
    "test_suite.py",
    "test_dist.py",
    "console",
    "fuzz",
    "store",
    "stan",
    "cli",
    "site",
    "replication",
    "spark",
    "bus",
    "control",
    "api",
    "table",
    "stream",
)
"""Modules by the start of their path, longest first; all others come after them."""


def rank(path: str) -> int:
    """Return the place of a test module, named by its path below the tests, in the order of starting."""
    places = [place for place, first in enumerate(FIRST) if path.startswith(first)]
    return min(places, default=len(FIRST))


def arrange(items: list[pytest.Item], root: Path) -> None:
    """Bring the tests into the order of starting."""
    items.sort(key=lambda item: rank(_below(item.path, root)))


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
