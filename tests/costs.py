"""What each test costs: CPU seconds of its worker and of processes that ended in it, and the time it took.

`TEST_COSTS=costs.tsv make test` appends one line for each test, and `python tests/costs.py costs.tsv` prints
the modules that cost most and when each worker ended. The seconds of a server or a Spark that tests share
count for the test in which it ends.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from forks import VARIABLE as WORKER

VARIABLE = "TEST_COSTS"
SHOWN = 60


@dataclass(frozen=True)
class Cost:
    """One test: who ran it, when it ended, and what it took."""

    worker: str
    ended: float
    cpu_s: float
    wall_s: float
    test: str

    @property
    def module(self) -> str:
        """Return the path of its module."""
        return self.test.partition("::")[0]

    def line(self) -> str:
        """Return it as one line of the record."""
        return f"{self.worker}\t{self.ended:.1f}\t{self.cpu_s:.3f}\t{self.wall_s:.3f}\t{self.test}\n"

    @classmethod
    def parse(cls, line: str) -> Cost:
        """Read it from its line."""
        worker, ended, cpu_s, wall_s, test = line.rstrip("\n").split("\t", 4)
        return cls(worker, float(ended), float(cpu_s), float(wall_s), test)


class Costs:
    """A plugin of pytest that appends what each test costs to a file."""

    def __init__(self, record: Path) -> None:
        self._record = record

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure one test with its set-up and its end."""
        cpu_s, began = _cpu_s(), time.monotonic()
        try:
            return (yield)
        finally:
            worker = os.environ.get(WORKER, "main")
            spent = _cpu_s() - cpu_s, time.monotonic() - began
            # One write of a line to a file that is only appended to: workers do not mix theirs.
            with self._record.open("a") as record:
                record.write(Cost(worker, time.time(), *spent, item.nodeid).line())


def summary(costs: Iterable[Cost]) -> str:
    """Return the modules that cost most, and when each worker ended."""
    cpu, wall, tests, ended = Counter[str](), Counter[str](), Counter[str](), dict[str, float]()
    for cost in costs:
        cpu[cost.module] += cost.cpu_s  # type: ignore[assignment]
        wall[cost.module] += cost.wall_s  # type: ignore[assignment]
        tests[cost.module] += 1
        ended[cost.worker] = max(cost.ended, ended.get(cost.worker, 0.0))
    lines = [f"{sum(cpu.values()):.0f} CPU s in {tests.total()} tests", "   CPU s  seconds  tests  module"]
    lines += [
        f"{cpu[name]:8.1f} {wall[name]:8.1f} {tests[name]:6}  {name}" for name, _ in cpu.most_common(SHOWN)
    ]
    last = max(ended.values(), default=0.0)
    return "\n".join(
        [*lines, *(f"{name} ended {last - at:.0f} s before the last" for name, at in ended.items())]
    )


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    print(summary(map(Cost.parse, Path(sys.argv[1]).read_text().splitlines())))
