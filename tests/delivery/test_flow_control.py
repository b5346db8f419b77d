"""The flow-control window asks in time, stops without an answer, and grows with every answer."""

from __future__ import annotations

from headwater.delivery.flow_control import FlowControl

MIB = 1 << 20


def test_a_request_is_due_when_half_the_window_is_used() -> None:
    flow = FlowControl("S", "c")
    assert flow.sent(MIB) is None
    subject = flow.sent(1)
    assert subject is not None
    assert subject.startswith(b"$JS.FC.S.c.")
    assert len(subject.rsplit(b".", 1)[1]) == 4
    assert flow.outstanding == subject
    assert flow.sent(1) is None, "one at a time"


def test_sending_stops_beyond_the_window_and_continues_after_the_answer() -> None:
    flow = FlowControl("S", "c")
    subject = flow.sent(2 * MIB)
    assert subject is not None
    assert flow.is_open
    flow.sent(1)
    assert not flow.is_open
    assert not flow.answered(b"$JS.FC.S.c.none")
    assert flow.answered(subject)
    assert flow.is_open
    assert not flow.answered(subject), "only once"


def test_the_window_doubles_up_to_its_bound() -> None:
    flow = FlowControl("S", "c")
    windows = []
    for _ in range(6):
        sent = 0
        while flow.is_open:
            flow.sent(MIB)
            sent += 1
        windows.append(sent - 1)
        assert flow.answered(flow.ask())
    assert windows == [2, 4, 8, 16, 32, 32]


def test_an_answer_always_opens_the_window_again() -> None:
    flow = FlowControl("S", "c")
    subject = flow.sent(MIB + 1)
    assert subject is not None
    for _ in range(50):
        flow.sent(3 * MIB)
    assert flow.answered(subject)
    while not flow.is_open:
        again = flow.ask()
        assert flow.answered(again)
    assert flow.is_open


def test_a_new_listener_starts_over() -> None:
    flow = FlowControl("S", "c")
    flow.sent(5 * MIB)
    flow.reset()
    assert flow.is_open
    assert flow.outstanding == b""
