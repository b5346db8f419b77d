"""Unsettled messages are found by sequence, by deadline and in the queue."""

from __future__ import annotations

from headwater.delivery.outstanding import NEVER, QUEUED, Outstanding

S = 1_000_000_000


def outstanding(*seqs: int, deadline: int = 10 * S) -> Outstanding:
    """Return these messages, delivered at 0."""
    messages = Outstanding()
    messages.add_run(seqs, 1, 0, deadline)
    return messages


def test_a_run_is_added_with_its_consumer_sequences() -> None:
    messages = outstanding(3, 7)
    assert messages.entries == {3: (1, 0, 10 * S), 7: (2, 0, 10 * S)}
    assert (len(messages), 3 in messages, 4 in messages) == (2, True, False)


def test_the_lowest_is_found_after_any_removals() -> None:
    messages = outstanding(*range(1, 1001))
    for seq in (2, 4, 1, 3):
        messages.pop(seq)
    assert messages.lowest() == 5
    assert messages.below(8) == [5, 6, 7]
    for seq in range(5, 1001):
        messages.pop(seq)
    assert messages.lowest() is None


def test_the_queue_keeps_the_order_of_arrival() -> None:
    messages = outstanding(1, 2, 3)
    messages.enqueue(3)
    messages.enqueue(1)
    assert messages.first_queued() == 3
    messages.pop(3)
    assert messages.first_queued() == 1
    messages.arm(1, 5, 20 * S)
    assert messages.first_queued() is None
    assert messages.entries[1] == (1, 5, 20 * S)


def test_due_is_what_has_waited_long_enough() -> None:
    messages = outstanding(1, 2, 3, 4)
    messages.postpone(2, 5 * S, 15 * S)
    messages.enqueue(4)
    assert messages.next_deadline() == 10 * S
    assert messages.due(10 * S) == [1, 3]
    for seq in (1, 3):
        messages.enqueue(seq)
    assert messages.next_deadline() == 15 * S
    assert messages.due(15 * S) == [2]


def test_a_queued_message_stays_queued_while_it_is_worked_on() -> None:
    messages = outstanding(1)
    messages.enqueue(1)
    messages.postpone(1, 5, 99 * S)
    assert messages.entries[1] == (1, 5, QUEUED)
    assert messages.next_deadline() is None


def test_sparse_runs_are_searched_by_what_is_pending() -> None:
    messages = outstanding(1, 10**12)
    messages.pop(1)
    assert messages.due(10 * S) == [10**12]


def test_what_is_never_due_has_no_deadline() -> None:
    messages = outstanding(1, 2, deadline=NEVER)
    assert messages.next_deadline() is None
    assert messages.due(NEVER - 1) == []


def test_loaded_messages_are_queued_and_due_as_before() -> None:
    messages = Outstanding()
    messages.load({9: (3, 0, QUEUED), 4: (1, 0, 7 * S), 6: (2, 0, NEVER)})
    assert messages.lowest() == 4
    assert messages.first_queued() == 9
    assert messages.num_queued == 1
    assert messages.due(7 * S) == [4]
    messages.clear()
    assert (len(messages), messages.num_queued, messages.next_deadline()) == (0, 0, None)
