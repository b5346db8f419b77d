"""What holds for everything that keeps messages of a work queue: a consumer's state and a copy's hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.delivery.state import ConsumerState
from headwater.model.consumer import AckPolicy, ConsumerConfig
from headwater.model.stream import Retention
from headwater.stream.retention.hold import Hold, Holder, is_released

Made = Callable[[int, int], Holder]


def consumer(start_seq: int, settled: int) -> Holder:
    """Return a consumer that has acknowledged everything from its start up to a sequence."""
    state = ConsumerState(ConsumerConfig(name="c", ack_policy=AckPolicy.EXPLICIT), start_seq)
    for seq in range(start_seq, settled + 1):
        state.deliver(seq, 0)
        state.ack(seq, seq - start_seq + 1, 0)
    return state


def copy(start_seq: int, settled: int) -> Holder:
    """Return a copy that has durably taken everything from its start up to a sequence."""
    return Hold(start_seq=start_seq, floor=settled)


@pytest.fixture(params=[consumer, copy])
def made(request: pytest.FixtureRequest) -> Made:
    found: Made = request.param
    return found


def test_what_is_not_settled_is_needed(made: Made) -> None:
    holder = made(1, 3)
    assert [holder.needs(seq) for seq in (1, 3, 4, 9)] == [False, False, True, True]


def test_only_what_it_had_is_settled(made: Made) -> None:
    holder = made(1, 3)
    assert [holder.has_settled(seq) for seq in (1, 3, 4, 9)] == [True, True, False, False]


def test_a_message_leaves_once_it_is_settled_and_no_other_needs_it(made: Made) -> None:
    done, behind = made(1, 3), made(1, 1)
    for retention in (Retention.WORKQUEUE, Retention.INTEREST):
        assert is_released(retention, [done], 3)
        assert not is_released(retention, [done, behind], 3)
        assert not is_released(retention, [done], 4)
    assert not is_released(Retention.LIMITS, [done], 3)
