"""The order in which parallel workers take test modules, and which modules one worker runs in a row.

The tests of one module run in one worker, one after the other, so that they share a server, a site or a
Spark. Modules start in the order of `FIRST`: what takes longest begins first, so that no worker is left with
it at the end. The tests of the modules in `APART` have nothing in common, so each of them is a part. Modules
that use the `cluster` of `on_spark/conftest.py` are one part: a Spark for each of them would cost ten seconds
of CPU time and a gigabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

FIRST = (
    "on_spark/test_pipelines.py",
    "conformance/test_scenarios.py",
    "on_spark/test_cinemas.py",
    "interop/test_nats_server_replicates.py",
    "docs/test_pages.py",
    "on_spark/test_data_source.py",
    "docs/test_operations_pages.py",
    "durability/test_journal_takeover.py",
    "interop/test_tables_in_a_bucket.py",
    "on_spark/test_secrets.py",
    "on_spark/test_processes.py",
    "interop/test_store_copy_to_a_journal.py",
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


APART = (
    "docs/test_pages.py",
    "docs/test_operations_pages.py",
    "interop/test_nats_server_replicates.py",
    "on_spark/test_processes.py",
    "simulation/test_engine.py",
    "simulation/test_stream.py",
)
"""Long modules whose tests run in any worker."""

SPARK = "cluster"
"""The fixture of a Spark that modules share: one worker runs all of them in a row."""


def parts(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests as the parts that workers take, in the order of starting."""
    on_spark = {item.path for item in items if SPARK in getattr(item, "fixturenames", ())}
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(_part(item, shares_spark=item.path in on_spark), []).append(item)
    return list(found.values())


def _part(item: pytest.Item, *, shares_spark: bool) -> str:
    if shares_spark:
        return SPARK
    return item.nodeid if item.path.as_posix().endswith(APART) else str(item.path)


def rank(path: str) -> int:
    """Return the place of a test module, named by its path below the tests, in the order of starting."""
    places = [place for place, first in enumerate(FIRST) if path.startswith(first)]
    return min(places, default=len(FIRST))


def arrange(items: list[pytest.Item], root: Path) -> None:
    """Bring the tests into the order of starting."""
    items.sort(key=lambda item: rank(_below(item.path, root)))


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
