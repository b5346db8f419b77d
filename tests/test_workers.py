"""Long modules begin first, and those that share a Spark are one part."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from workers import APART, FIRST, SPARK, parts, rank

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
    assert [place for place in FIRST + APART if not (TESTS / place).exists()] == []


def test_all_modules_that_share_a_spark_are_one_part() -> None:
    def test(module: str, *fixtures: str) -> Mock:
        return Mock(path=TESTS / module, fixturenames=[*fixtures])

    first, also, alone = test("test_a.py", SPARK), test("test_a.py"), test("test_b.py")
    second = test("test_c.py", "tmp_path", SPARK)
    assert parts([first, also, alone, second]) == [[first, also, second], [alone]]


def test_tests_that_have_nothing_in_common_are_parts_of_their_own() -> None:
    def test(module: str, name: str) -> Mock:
        return Mock(path=TESTS / module, fixturenames=[], nodeid=f"{module}::{name}")

    apart = [test(APART[0], "a"), test(APART[0], "b")]
    together = [test("log/test_log.py", "a"), test("log/test_log.py", "b")]
    assert parts([*apart, *together]) == [[apart[0]], [apart[1]], together]
