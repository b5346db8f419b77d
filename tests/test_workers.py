"""Long modules begin first, and those that share a Spark are one part."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from workers import FIRST, TOGETHER, parts, rank

TESTS = Path(__file__).parent


def test_what_takes_longest_begins_first() -> None:
    modules = [
        "log/test_log.py",
        "on_spark/test_jobs.py",
        "conformance/test_scenarios.py",
        "on_spark/test_cinemas.py",
    ]
    assert sorted(modules, key=rank) == [
        "conformance/test_scenarios.py",
        "on_spark/test_cinemas.py",
        "on_spark/test_jobs.py",
        "log/test_log.py",
    ]


def test_every_place_in_the_order_is_a_module_or_a_folder() -> None:
    assert [place for place in FIRST if not (TESTS / place).exists()] == []


def test_all_modules_that_share_a_spark_are_one_part() -> None:
    folder = TESTS / "on_spark"
    shares = sorted(path for path in folder.glob("test_*.py") if "cluster: SparkCluster" in path.read_text())
    assert [path.relative_to(TESTS).as_posix() for path in shares] == list(TOGETHER[0])
    alone, first, second = (Mock(path=TESTS / name) for name in ("test_a.py", *TOGETHER[0][:2]))
    assert parts([first, alone, second], TESTS) == [[first, second], [alone]]
