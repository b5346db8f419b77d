"""What tests cost is recorded line by line and summed up by module and worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from costs import Cost, Costs, summary


def test_a_line_is_read_back() -> None:
    cost = Cost("w1", 12.5, 0.25, 1.5, "tests/test_a.py::test_it[a\\tb]")
    assert Cost.parse(cost.line()) == cost


def test_modules_are_listed_by_what_they_cost_and_workers_by_their_end() -> None:
    costs = [
        Cost("w0", 10.0, 1.0, 2.0, "tests/test_a.py::test_1"),
        Cost("w1", 14.0, 5.0, 6.0, "tests/test_b.py::test_1"),
        Cost("w0", 11.0, 1.0, 3.0, "tests/test_a.py::test_2"),
    ]
    assert summary(costs).splitlines() == [
        "7 CPU s in 3 tests",
        "   CPU s  seconds  tests  module",
        "     5.0      6.0      1  tests/test_b.py",
        "     2.0      5.0      2  tests/test_a.py",
        "w0 ended 3 s before the last",
        "w1 ended 0 s before the last",
    ]


def test_a_test_is_recorded_when_it_is_over(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    record = tmp_path / "costs.tsv"
    measured = Costs(record).pytest_runtest_protocol(request.node)
    next(measured)
    assert not record.exists()
    with pytest.raises(StopIteration):
        next(measured)
    cost = Cost.parse(record.read_text())
    assert cost.test == request.node.nodeid
    assert cost.cpu_s >= 0
