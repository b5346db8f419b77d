"""Pull requests are served in turn, and each gets a status at its end."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.delivery.pin import PinChange
from headwater.delivery.pull_queue import PullQueue, PullStatus, Waiting
from headwater.model.consumer import ConsumerConfig, PriorityGroupState, PriorityPolicy, PullRequest

S = 1_000_000_000


def formal(**fields: Any) -> PullRequest:
    """Return a request with a JSON object as its body."""
    return PullRequest(formal=True, **fields)


def queue(*requests: PullRequest, **config: Any) -> PullQueue:
    """Return a queue with requests from a, b, c and so on."""
    waiting = PullQueue(ConsumerConfig(**config))
    for reply, request in zip("abcdefgh", requests, strict=False):
        assert waiting.add(reply.encode(), request, 0, 100) is None
    return waiting


def prioritised(policy: PriorityPolicy, *requests: PullRequest, **config: Any) -> PullQueue:
    """Return a queue with a priority group g."""
    return queue(*requests, priority_policy=policy, priority_groups=("g",), **config)


def serve(waiting: PullQueue, rounds: int, size: int = 10) -> str:
    """Serve one message at a time, and return the receiver of each."""
    order = ""
    for _ in range(rounds):
        request = waiting.next(1, 100, 0)
        if request is None:
            return order
        waiting.pin_of(request, 1)
        order += request.reply.decode()
        waiting.served(request, 1, size, 1)
    return order


def test_requests_are_served_in_turn_until_each_has_what_it_asked_for() -> None:
    waiting = queue(formal(batch=3), formal(batch=1), formal(batch=2))
    assert waiting.wanted == 6
    assert serve(waiting, 10) == "abcaca"
    assert len(waiting) == 0


@pytest.mark.parametrize("request_", [PullRequest(), formal(batch=0), PullRequest(batch=-3)])
def test_a_request_for_nothing_gets_one_message(request_: PullRequest) -> None:
    assert serve(queue(request_), 5) == "a"


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (formal(batch=6), 409, "Exceeded MaxRequestBatch of 5"),
        (formal(batch=1, expires=61 * S), 409, "Exceeded MaxRequestExpires of 1m0s"),
        (formal(batch=1, max_bytes=1001), 409, "Exceeded MaxRequestMaxBytes of 1000"),
        (formal(batch=1, min_pending=1), 400, "Bad Request - Not a Overflow Priority consumer"),
        (formal(batch=1, min_ack_pending=1), 400, "Bad Request - Not a Overflow Priority consumer"),
        (formal(batch=1, id="x"), 400, "Bad Request - Not a Pinned Client Priority consumer"),
        (formal(batch=1, priority=10), 400, "Bad Request - Priority must be between 0 and 9"),
        (formal(batch=1, priority=-1), 400, "Bad Request - Priority must be between 0 and 9"),
    ],
)
def test_a_request_beyond_the_caps_is_refused(request_: PullRequest, code: int, text: str) -> None:
    waiting = queue(max_batch=5, max_expires=60 * S, max_bytes=1000)
    assert waiting.add(b"r", request_, 0, 1) == PullStatus(b"r", code, text)
    assert len(waiting) == 0


def test_a_request_within_the_caps_waits() -> None:
    waiting = queue(max_batch=5, max_expires=60 * S, max_bytes=1000)
    assert waiting.add(b"r", formal(batch=5, expires=60 * S, max_bytes=1000), 0, 1) is None


def test_a_request_without_wait_gets_a_status_at_once_if_there_is_nothing() -> None:
    waiting = queue()
    assert waiting.add(b"r", formal(batch=1, no_wait=True), 0, 0) == PullStatus(b"r", 404, "No Messages")
    assert waiting.add(b"r", formal(batch=1, no_wait=True, expires=S), 0, 0) is None


def test_a_request_without_wait_gets_a_status_if_others_take_everything() -> None:
    waiting = queue(formal(batch=5))
    refused = waiting.add(b"r", formal(batch=1, no_wait=True), 0, 4)
    assert refused == PullStatus(b"r", 408, "Requests Pending")
    assert waiting.add(b"r", formal(batch=1, no_wait=True), 0, 5) is None


def test_at_the_end_of_the_stream_requests_without_wait_end() -> None:
    waiting = queue(
        formal(batch=2, no_wait=True),
        formal(batch=2, no_wait=True, expires=S),
        formal(batch=2, no_wait=True, expires=S),
        formal(batch=2),
    )
    assert serve(waiting, 2) == "ab"
    assert waiting.at_end() == [PullStatus(b"a", 404, "No Messages"), PullStatus(b"b", 404, "No Messages")]
    assert [w.reply for w in waiting] == [b"c", b"d"]


def test_a_full_queue_accepts_no_more_unless_a_request_has_waited_long_enough() -> None:
    waiting = queue(formal(batch=3, expires=S), formal(batch=1), max_waiting=2)
    assert waiting.add(b"r", formal(batch=1), 1, 1) == PullStatus(b"r", 409, "Exceeded MaxWaiting")
    silent = waiting.add(b"r", formal(batch=1, idle_heartbeat=S, expires=9 * S), 1, 1)
    assert silent is not None
    assert silent.code == 0
    assert waiting.add(b"r", formal(batch=1), S, 1) is None
    assert waiting.take_statuses() == [PullStatus(b"a", 408, "Request Timeout", (3, 0))]


def test_requests_expire_with_what_they_still_wanted() -> None:
    waiting = queue(
        formal(batch=5, expires=2 * S, max_bytes=100), formal(batch=1, expires=S), formal(batch=1)
    )
    assert waiting.next_deadline() == S
    request = waiting.next(0, 1, 0)
    assert request is not None
    waiting.served(request, 1, 30, 0)
    assert waiting.expire(S - 1) == []
    assert waiting.expire(2 * S) == [
        PullStatus(b"b", 408, "Request Timeout", (1, 0)),
        PullStatus(b"a", 408, "Request Timeout", (4, 70)),
    ]
    assert waiting.next_deadline() is None


def test_a_request_that_is_over_is_not_served() -> None:
    waiting = queue(formal(batch=1, expires=-1), formal(batch=1))
    chosen = waiting.next(0, 1, 0)
    assert chosen is not None
    assert chosen.reply == b"b"
    assert waiting.take_statuses() == [PullStatus(b"a", 408, "Request Timeout", (1, 0))]


def test_bytes_end_a_request_like_messages_do() -> None:
    waiting = queue(formal(batch=10, max_bytes=100))
    assert serve(waiting, 3, size=40) == "aaa", "the shell asks before it sends what is too large"
    waiting = queue(formal(batch=10, max_bytes=100))
    request = waiting.next(0, 1, 0)
    assert request is not None
    assert request.size == 100
    assert waiting.served(request, 1, 100, 0) is None
    assert len(waiting) == 0


def test_a_message_too_large_closes_the_request() -> None:
    waiting = queue(formal(batch=10, max_bytes=100))
    request = waiting.next(0, 1, 0)
    assert request is not None
    assert waiting.too_large(request) == PullStatus(b"a", 409, "Message Size Exceeds MaxBytes", (10, 100))
    assert len(waiting) == 0


def test_a_completed_batch_with_bytes_left_gets_a_status() -> None:
    waiting = queue(formal(batch=2, max_bytes=100))
    request = waiting.next(0, 1, 0)
    assert request is not None
    assert waiting.served(request, 2, 60, 0) == PullStatus(b"a", 409, "Batch Completed", (0, 40))


def test_heartbeats_come_while_nothing_else_does() -> None:
    waiting = queue(formal(batch=2, idle_heartbeat=S, expires=10 * S), formal(batch=1))
    assert waiting.next_deadline() == S
    assert waiting.heartbeats(S - 1) == []
    assert waiting.heartbeats(S) == [b"a"]
    request = waiting.next(S, 1, 0)
    assert request is not None
    waiting.served(request, 1, 1, 2 * S - 1)
    assert waiting.heartbeats(2 * S) == []
    assert waiting.heartbeats(3 * S) == [b"a"]


def test_all_requests_get_a_status_when_the_consumer_is_deleted() -> None:
    waiting = queue(formal(batch=2, max_bytes=9), formal(batch=1))
    assert waiting.close(409, "Consumer Deleted", shows_left=False)[0] == PullStatus(
        b"a", 409, "Consumer Deleted"
    )
    waiting = queue(formal(batch=2, max_bytes=9))
    assert waiting.close(409, "Server Shutdown") == [PullStatus(b"a", 409, "Server Shutdown", (2, 9))]
    assert len(waiting) == 0


@pytest.mark.parametrize(
    ("request_", "text"),
    [(formal(batch=1), "Priority Group missing"), (formal(batch=1, group="h"), "Invalid Priority Group")],
)
def test_a_group_must_be_named_rightly(request_: PullRequest, text: str) -> None:
    waiting = prioritised(PriorityPolicy.OVERFLOW)
    assert waiting.add(b"r", request_, 0, 1) == PullStatus(b"r", 400, f"Bad Request - {text}")
    assert waiting.add(b"r", PullRequest(), 0, 1) is None, "a plain request has no group"


def test_overflow_serves_those_whose_threshold_is_reached() -> None:
    waiting = prioritised(
        PriorityPolicy.OVERFLOW,
        formal(batch=9, group="g", min_pending=10),
        formal(batch=9, group="g", min_ack_pending=5),
        formal(batch=9, group="g", min_pending=10, min_ack_pending=3),
    )
    chosen = {
        (undelivered, unacknowledged): waiting.next(0, undelivered, unacknowledged)
        for undelivered, unacknowledged in ((1, 0), (10, 0), (9, 5), (9, 3))
    }
    assert {k: w and w.reply for k, w in chosen.items()} == {
        (1, 0): None,
        (10, 0): b"a",
        (9, 5): b"b",
        (9, 3): b"c",
    }


def test_prioritised_requests_go_by_priority_and_then_in_turn() -> None:
    waiting = prioritised(
        PriorityPolicy.PRIORITIZED,
        formal(batch=2, group="g", priority=2),
        formal(batch=2, group="g", priority=1),
        PullRequest(batch=1),
        formal(batch=2, group="g", priority=1),
        formal(batch=1, group="g", priority=0),
    )
    assert serve(waiting, 10) == "ebdbdaac"


def test_one_client_is_pinned_and_the_others_stand_by() -> None:
    request = formal(batch=2, group="g")
    waiting = prioritised(PriorityPolicy.PINNED_CLIENT, request, request, priority_timeout=60 * S)
    assert waiting.groups == (PriorityGroupState("g"),)
    assert serve(waiting, 5) == "aa"
    pin = waiting.pin.id
    assert pin
    assert waiting.groups == (PriorityGroupState("g", pin, 1),)
    assert waiting.pin.take_changes() == [PinChange("g", pin)]
    assert waiting.add(b"x", formal(batch=1, group="g", id="other"), 2, 1) == PullStatus(
        b"x", 423, "Nats-Pin-Id mismatch"
    )
    assert waiting.add(b"a", formal(batch=1, group="g", id=pin), 2, 1) is None
    assert serve(waiting, 5) == "a"


def test_a_pin_lapses_when_its_client_is_not_heard_of() -> None:
    request = formal(batch=2, group="g")
    waiting = prioritised(PriorityPolicy.PINNED_CLIENT, request, request, priority_timeout=60 * S)
    first = waiting.next(0, 1, 0)
    assert first is not None
    pin = waiting.pin_of(first, 0)
    waiting.served(first, 1, 1, 0)
    waiting.add(b"a", formal(batch=1, group="g", id=pin), 10 * S, 1)
    assert waiting.next_deadline() == 70 * S
    waiting.expire(70 * S - 1)
    assert waiting.pin.id == pin
    waiting.expire(70 * S)
    assert waiting.pin.id == ""
    assert waiting.pin.take_changes()[-1] == PinChange("g", pin, "timeout")
    second = waiting.next(70 * S, 1, 0)
    assert second is not None
    assert second.reply == b"b", "the old client's requests carry a pin that is none any more"
    assert [(s.reply, s.code, s.text) for s in waiting.take_statuses()] == []
    waiting.pin_of(second, 70 * S)
    waiting.served(second, 2, 1, 70 * S)
    assert waiting.next(70 * S, 1, 0) is None
    assert {s.text for s in waiting.take_statuses()} == {"Nats-Wrong-Pin-Id"}


def test_unpinning_lets_another_client_in() -> None:
    request = formal(batch=1, group="g")
    waiting = prioritised(PriorityPolicy.PINNED_CLIENT, request, request, priority_timeout=60 * S)
    assert not waiting.unpin("g")
    assert serve(waiting, 5) == "a"
    assert waiting.unpin("g")
    assert serve(waiting, 5) == "b"


def test_a_request_without_a_listener_is_dropped_without_a_status() -> None:
    waiting = queue(formal(batch=1), formal(batch=1))
    waiting.drop(next(iter(waiting)))
    assert [w.reply for w in waiting] == [b"b"]


def test_a_waiting_request_knows_what_it_may_still_get() -> None:
    waiting = Waiting(b"r", formal(batch=0, max_bytes=-1), 5)
    assert (waiting.messages, waiting.size, waiting.expires_ns) == (1, None, None)


def test_a_rotation_gives_each_what_it_wants_in_turn() -> None:
    queue = PullQueue(ConsumerConfig())
    for name, batch in ((b"one", 1), (b"two", 3), (b"three", 2)):
        assert queue.add(name, PullRequest(batch=batch), 0, 0) is None
    assert queue.takes_turns
    turns = [waiting.reply for waiting in queue.rotation(6)]
    assert turns == [b"one", b"two", b"three", b"two", b"three", b"two"]
    assert queue.rotation(4) == queue.rotation(6)[:4]
    assert queue.add(b"four", PullRequest(batch=1, max_bytes=10), 0, 0) is None
    assert not queue.takes_turns


def test_no_more_requests_are_set_aside_than_may_wait() -> None:
    queue = PullQueue(ConsumerConfig(name="C", max_waiting=2))
    for number in range(5):
        assert queue.add(b"%d" % number, PullRequest(batch=1), number, 0) is None
        queue.set_aside(next(iter(queue)), number)
    assert [waiting.reply for waiting in queue.away] == [b"0", b"1"]
