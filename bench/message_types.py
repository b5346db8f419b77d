"""What one type for all messages would cost: CPU time per message as lists, and as columns (decision 0055).

Run: python -m bench.message_types
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.model.columns import Columns, columns_of, concat
from headwater.model.message import Message
from headwater.stream.pending import PendingGroup
from headwater.stream.publishing.offered import OfferedRun

SUBJECT, DATA = b"orders.eu.1", bytes(128)
GROUP = 1000
LOOPS = 20_000
ROUNDS = 5


def best_us(action: Callable[[], object], loops: int) -> float:
    """Return the microseconds of CPU time that one call takes in the best round, without the loop."""
    return max(0.0, _loop_us(action, loops) - _loop_us(lambda: None, loops))


def _loop_us(action: Callable[[], object], loops: int) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(loops):
            action()
        times.append(time.thread_time() - began)
    return min(times) / loops * 1e6


def run_of_one() -> OfferedRun:
    """Return one published message as a run."""
    return OfferedRun([1], [2], [SUBJECT], [b""], [DATA])


def columns_of_one() -> Columns:
    """Return one published message as columns."""
    return columns_of([Message(1, 2, SUBJECT, b"", DATA)])


def pending_group() -> OfferedRun:
    """Return a group of messages that were added one by one, as a run."""
    group = PendingGroup()
    for seq in range(GROUP):
        group.add(seq, 2, SUBJECT, b"", DATA)
    return group.run()


def joined_group() -> Columns:
    """Return a group of messages of which each is columns, joined at its end."""
    return concat([columns_of_one() for _ in range(GROUP)])


def main() -> None:
    """Print what each way takes."""
    one = columns_of_one()
    rows: list[tuple[str, Callable[[], object], Callable[[], object], int]] = [
        ("one published message", run_of_one, columns_of_one, 1),
        ("the same, read back by a consumer", lambda: None, lambda: OfferedRun.of(one).message(0), 1),
        (f"each message of a group of {GROUP:,}", pending_group, joined_group, GROUP),
    ]
    print(f"{'':36} {'as it is':>10} {'merged':>10}")
    for name, as_it_is, merged, count in rows:
        apart, as_one = (best_us(action, LOOPS // count) / count for action in (as_it_is, merged))
        print(f"{name:36} {apart:7.2f} µs {as_one:7.2f} µs")


if __name__ == "__main__":
    main()
