"""A consumer's state loses nothing, delivers nothing too often, and is the same again after a crash."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.delivery.outstanding import Delivery, Unsettled
from headwater.delivery.state import ConsumerState
from headwater.model.consumer import AckPolicy, ConsumerConfig, SequenceInfo

S = 1_000_000_000
WAIT = 30 * S
EVENTS = ("new", "again", "time", "ack", "nak", "progress", "remove", "write", "crash")
WEIGHTS = (10, 12, 8, 12, 8, 6, 2, 6, 1)


def explicit(**fields: object) -> ConsumerConfig:
    """Return a config whose messages are acknowledged one by one."""
    return ConsumerConfig(**{"ack_policy": AckPolicy.EXPLICIT, "ack_wait": WAIT, "max_deliver": -1} | fields)  # type: ignore[arg-type]


def floor(state: ConsumerState) -> tuple[int, int]:
    """Return the ack floor in both countings."""
    return state.ack_floor.consumer_seq, state.ack_floor.stream_seq


def test_a_new_state_begins_before_its_first_sequence() -> None:
    state = ConsumerState(explicit(), 7)
    assert state.delivered == SequenceInfo(0, 6)
    assert state.ack_floor == SequenceInfo(0, 6)
    assert (state.next_seq, state.num_ack_pending, state.next_deadline()) == (7, 0, None)


def test_messages_are_counted_as_they_go_out() -> None:
    state = ConsumerState(explicit())
    assert state.deliver(3, 10) == Delivery(1, 1)
    assert state.deliver_run([4, 9], 11) == 2
    assert state.delivered == SequenceInfo(3, 9, 11)
    assert state.num_ack_pending == 3
    assert state.next_seq == 10


def test_without_acks_everything_counts_as_acknowledged_when_it_goes_out() -> None:
    state = ConsumerState(ConsumerConfig(ack_policy=AckPolicy.NONE, max_deliver=1))
    state.deliver_run(range(1, 100_001), 5)
    assert state.num_ack_pending == 0
    assert floor(state) == (100_000, 100_000)
    assert not state.ack(5, 5, 6)
    assert (state.needs(100_000), state.needs(100_001)) == (False, True)


def test_the_floor_waits_for_the_lowest() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([2, 5, 9, 11], 1)
    assert state.ack(5, 2, 2)
    assert floor(state) == (0, 0)
    assert state.ack(2, 1, 2)
    assert floor(state) == (2, 8)
    assert state.ack(11, 4, 2)
    assert state.ack(9, 3, 2)
    assert floor(state) == (4, 11)


def test_an_ack_of_what_is_not_pending_changes_nothing() -> None:
    state = ConsumerState(explicit())
    state.deliver(1, 1)
    assert state.ack(1, 1, 2)
    state.take_delta()
    assert not state.ack(1, 1, 3)
    assert not state.ack(99, 99, 3)
    assert state.take_delta() is None


@pytest.mark.parametrize("redelivered", [False, True])
def test_acks_that_come_together_settle_what_they_settle_one_by_one(redelivered: bool) -> None:
    def delivered() -> ConsumerState:
        state = ConsumerState(explicit())
        state.deliver_run(range(1, 11), 0)
        if redelivered:
            state.nak(4, None, 0)
            state.deliver(4, 0)
            state.nak(6, None, 0)
        return state

    for acked in ([1, 2, 3], [2, 9], [6, 4, 1], [11, 5, 5], [*range(1, 11)]):
        together, singly = delivered(), delivered()
        assert list(together.ack_each(acked, 1)) == [seq for seq in acked if singly.ack(seq, 0, 1)]
        assert together == singly
        assert together.take_delta() == singly.take_delta()


def test_ack_all_settles_everything_up_to_a_message() -> None:
    state = ConsumerState(explicit(ack_policy=AckPolicy.ALL))
    state.deliver_run([1, 3, 5, 7], 1)
    assert state.ack(5, 3, 2)
    assert floor(state) == (3, 5)
    assert [state.needs(seq) for seq in (3, 5, 7, 8)] == [False, False, True, True]
    assert not state.ack(3, 2, 3)
    assert not state.ack(9, 9, 3), "nothing beyond what was delivered"
    assert state.ack(7, 4, 3)
    assert state.num_ack_pending == 0


def test_flow_control_acks_settle_like_ack_all_and_never_fall_due() -> None:
    state = ConsumerState(ConsumerConfig(ack_policy=AckPolicy.FLOW_CONTROL, max_ack_pending=10))
    state.deliver_run([1, 2, 3], 1)
    assert state.next_deadline() is None
    assert state.expire(2**62) == []
    assert not state.ack(3, 0, 2), "who has received nothing settles nothing"
    assert state.ack(2, 2, 2)
    assert state.num_ack_pending == 1


def test_what_is_not_acknowledged_in_time_goes_out_again_before_anything_new() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3], 0)
    state.ack(2, 2, 1)
    assert state.next_deadline() == WAIT
    assert state.expire(WAIT - 1) == []
    assert state.expire(WAIT) == [1, 3]
    assert state.next_deadline() is None
    assert state.next_redelivery() == 1
    assert state.deliver(1, WAIT) == Delivery(4, 2)
    assert state.next_redelivery() == 3
    assert state.num_redelivered == 1
    assert state.next_deadline() == 2 * WAIT


def test_an_ack_takes_a_message_out_of_the_queue() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2], 0)
    state.expire(WAIT)
    state.ack(1, 1, WAIT)
    assert state.next_redelivery() == 2
    assert state.num_queued == 1


def test_naks_queue_in_the_order_they_come() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3], 0)
    assert state.nak(3, None, 1)
    assert state.nak(1, 0, 1)
    assert state.nak(3, None, 1), "once more changes nothing"
    queued = []
    while (seq := state.next_redelivery()) is not None:
        queued.append(seq)
        state.deliver(seq, 2)
    assert queued == [3, 1]
    assert not state.nak(99, None, 2)


def test_a_delayed_nak_waits_shorter_or_longer_than_the_ack_wait() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3], 0)
    state.nak(1, 5 * S, 0)
    state.nak(2, 2 * WAIT, 0)
    assert state.next_deadline() == 5 * S
    assert state.expire(5 * S) == [1]
    assert state.expire(WAIT) == [3]
    assert state.expire(2 * WAIT - 1) == []
    assert state.expire(2 * WAIT) == [2]


def test_a_delayed_nak_takes_a_queued_message_back() -> None:
    state = ConsumerState(explicit())
    state.deliver(1, 0)
    state.nak(1, None, 0)
    state.nak(1, 5 * S, 0)
    assert state.next_redelivery() is None
    assert state.expire(5 * S) == [1]


def test_progress_restarts_the_wait() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2], 0)
    assert state.progress(1, 20 * S)
    assert state.expire(WAIT) == [2]
    assert state.next_deadline() == 20 * S + WAIT
    assert state.expire(20 * S + WAIT) == [1]
    assert not state.progress(99, 0)


def test_backoff_gives_each_delivery_its_own_wait() -> None:
    state = ConsumerState(explicit(backoff=(1 * S, 5 * S), ack_wait=1 * S))
    state.deliver(1, 0)
    waits = []
    now = 0
    for _ in range(4):
        deadline = state.next_deadline()
        assert deadline is not None
        waits.append((deadline - now) // S)
        now = deadline
        assert state.expire(now) == [1]
        state.deliver(1, now)
    assert waits == [1, 5, 5, 5]


def test_a_message_is_given_up_after_its_last_delivery_and_stays_needed() -> None:
    state = ConsumerState(explicit(max_deliver=2))
    state.deliver_run([1, 2], 0)
    state.ack(2, 2, 0)
    assert state.expire(WAIT) == [1]
    state.deliver(1, WAIT)
    assert state.expire(2 * WAIT) == [1]
    assert state.take_given_up() == []
    assert state.next_redelivery() is None
    assert state.take_given_up() == [Unsettled(1, 1, 2)]
    assert state.take_given_up() == []
    assert floor(state) == (3, 2)
    assert (state.num_ack_pending, state.num_redelivered) == (0, 1)
    assert state.needs(1)
    assert state.ack(1, 1, 2 * WAIT), "an ack that comes late lets retention remove it"
    assert not state.needs(1)


def test_where_one_delivery_is_all_a_message_is_given_up_when_it_is_due() -> None:
    state = ConsumerState(explicit(max_deliver=1))
    state.deliver(1, 0)
    assert state.expire(WAIT) == []
    assert state.take_given_up() == [Unsettled(1, 1, 1)]
    assert state.num_ack_pending == 0


def test_a_nak_of_the_last_delivery_gives_up_when_its_turn_comes() -> None:
    state = ConsumerState(explicit(max_deliver=1))
    state.deliver(1, 0)
    assert state.nak(1, None, 1)
    assert state.num_ack_pending == 1
    assert state.next_redelivery() is None
    assert state.take_given_up() == [Unsettled(1, 1, 1)]
    assert state.num_redelivered == 0, "nothing is redelivered where one delivery is all"


def test_fewer_deliveries_allowed_than_before_give_up_what_is_queued() -> None:
    state = ConsumerState(explicit())
    state.deliver(1, 0)
    state.nak(1, None, 0)
    state.configure(explicit(max_deliver=1))
    assert state.next_redelivery() is None
    assert state.take_given_up() == [Unsettled(1, 1, 1)]


@pytest.mark.parametrize(("limit", "room"), [(-1, None), (0, None), (5, 2), (3, 0), (2, 0)])
def test_room_is_what_the_limit_leaves(limit: int, room: int | None) -> None:
    state = ConsumerState(explicit(max_ack_pending=limit))
    state.deliver_run([1, 2, 3], 0)
    assert state.room == room


def test_removed_messages_are_settled_and_named() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3, 4], 0)
    state.nak(2, None, 0)
    state.deliver(2, 1)
    assert state.forget([2, 99], 2) == [Unsettled(2, 2, 2)]
    assert state.forget_below(4, 3) == [Unsettled(1, 1, 1), Unsettled(3, 3, 1)]
    assert floor(state) == (3, 3)


def test_given_up_messages_are_forgotten_when_the_stream_lets_them_go() -> None:
    state = ConsumerState(explicit(max_deliver=1))
    state.deliver_run([1, 2], 0)
    state.expire(WAIT)
    assert state.forget_below(2, WAIT) == []
    assert (state.needs(1), state.needs(2)) == (False, True)


def test_a_purge_moves_everything_up() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2], 0)
    state.purge(10, 1)
    assert state.delivered == SequenceInfo(2, 9, 0)
    assert floor(state) == (2, 9)
    assert state.next_seq == 10
    state.deliver_run([12, 13], 2)
    state.purge(13, 3)
    assert floor(state) == (3, 12)
    assert state.num_ack_pending == 1


def test_a_reset_starts_over_after_the_floor_or_at_a_given_sequence() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3], 0)
    state.ack(1, 1, 0)
    assert state.reset() == 2
    assert state.delivered == SequenceInfo(0, 1)
    assert state.num_ack_pending == 0
    assert state.reset(9) == 9
    assert ConsumerState.restore(explicit(), [state.dump()]) == state


def test_messages_that_did_not_match_are_not_checked_again() -> None:
    state = ConsumerState(explicit())
    state.deliver(2, 0)
    state.skip(1000)
    state.skip(5)
    assert state.next_seq == 1000
    assert state.delivered.stream_seq == 2
    assert not state.needs(500)
    assert ConsumerState.restore(explicit(), [state.dump()]).next_seq == 1000


def test_what_waits_to_go_out_again_waits_after_a_restart_too() -> None:
    state = ConsumerState(explicit())
    state.deliver_run([1, 2, 3], 0)
    state.nak(3, None, 0)
    state.nak(2, 9 * S, 0)
    again = ConsumerState.restore(explicit(), [state.dump()])
    assert again.next_redelivery() == 3
    assert again.next_deadline() == 9 * S
    assert again.expire(WAIT) == [1, 2]


def test_a_change_is_small() -> None:
    state = ConsumerState(explicit())
    state.dump()
    state.deliver_run(range(1_000_000, 1_001_000), 10**18)
    delivered = state.take_delta()
    for seq in range(1_000_000, 1_001_000):
        state.ack(seq, seq, 10**18)
    settled = state.take_delta()
    assert delivered is not None
    assert len(delivered) < 4200
    assert settled is not None
    assert len(settled) < 1100
    assert state.take_delta() is None


PICKS = st.integers(0, 2**20)


@dataclass
class Model:
    """The same as the state, in the plainest way."""

    seq: int = 0
    consumer_seq: int = 0
    floor: tuple[int, int] = (0, 0)
    first: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)

    def leave(self, seq: int) -> None:
        """Move the floor up to the next unsettled message, if this message was the lowest."""
        del self.due[seq]
        if not self.due:
            self.floor = self.consumer_seq, self.seq
        elif seq < min(self.due):
            lowest = min(self.due)
            self.floor = max(self.floor[0], self.first[lowest] - 1), max(self.floor[1], lowest - 1)


class Consumer(RuleBasedStateMachine):
    """Everything that can happen to a consumer, in any order, crashes included."""

    @initialize(
        max_deliver=st.sampled_from([-1, 1, 2, 4]),
        backoff=st.sampled_from([(), (2 * S, 7 * S)]),
        policy=st.sampled_from([AckPolicy.EXPLICIT, AckPolicy.EXPLICIT, AckPolicy.ALL]),
    )
    def begin(self, max_deliver: int, backoff: tuple[int, ...], policy: AckPolicy) -> None:
        """Begin with some config."""
        self.config = explicit(max_deliver=max_deliver, backoff=backoff, ack_policy=policy, ack_wait=10 * S)
        self.waits = backoff or (10 * S,)
        self.state = ConsumerState(self.config)
        self.model = Model()
        self.now = 1
        self.written = [self.state.dump()]
        self.saved = copy.deepcopy(self.model)

    def picked(self, pick: int) -> int:
        """Return some sequence, most likely one that is pending."""
        pending = sorted(self.model.due)
        if pending and pick % 4:
            return pending[pick // 4 % len(pending)]
        return 1 + pick // 4 % (self.model.seq + 2)

    def wait(self, count: int) -> int:
        """Return how long the acknowledgement of a delivery may take."""
        return self.waits[min(count - 1, len(self.waits) - 1)]

    @rule(count=st.integers(1, 6), gap=st.integers(0, 3))
    def deliver_new(self, count: int, gap: int) -> None:
        """Deliver some messages for the first time."""
        model = self.model
        seqs = list(range(model.seq + 1 + gap, model.seq + 1 + gap + count))
        assert self.state.deliver_run(seqs, self.now) == model.consumer_seq + 1
        for seq in seqs:
            model.consumer_seq += 1
            model.first[seq], model.count[seq] = model.consumer_seq, 1
            model.due[seq] = self.now + self.wait(1)
        model.seq = seqs[-1]

    @rule()
    def deliver_again(self) -> None:
        """Deliver what is first in the queue."""
        seq = self.state.next_redelivery()
        model = self.model
        self.check_given_up()
        assert (seq is None) == (0 not in model.due.values())
        if seq is None:
            return
        assert seq not in model.settled | model.given_up
        model.count[seq] += 1
        model.consumer_seq += 1
        assert self.config.max_deliver < 0 or model.count[seq] <= self.config.max_deliver
        assert self.state.deliver(seq, self.now) == Delivery(model.consumer_seq, model.count[seq])
        model.due[seq] = self.now + self.wait(model.count[seq])

    @rule(step=st.sampled_from([1, S, 2 * S, 7 * S, 10 * S, 100 * S]))
    def time_passes(self, step: int) -> None:
        """Let time pass, and what is due fall due."""
        self.now += step
        due = sorted(seq for seq, deadline in self.model.due.items() if 0 < deadline <= self.now)
        earliest = min((d for d in self.model.due.values() if d > 0), default=None)
        announced = self.state.next_deadline()
        if earliest is not None:
            assert announced is not None
            assert announced <= earliest
        for seq in due:
            self.model.due[seq] = 0
        once = self.config.max_deliver == 1
        assert self.state.expire(self.now) == ([] if once else due)
        self.check_given_up()

    def spent(self, seq: int) -> bool:
        """Return whether a message may not go out once more."""
        return 0 < self.config.max_deliver <= self.model.count[seq]

    def check_given_up(self) -> None:
        """Compare what was given up."""
        for unsettled in self.state.take_given_up():
            seq = unsettled.stream_seq
            assert unsettled == Unsettled(seq, self.model.first[seq], self.model.count[seq])
            assert self.model.due[seq] == 0
            assert self.spent(seq)
            self.model.given_up.add(seq)
            self.model.leave(seq)

    @rule(pick=PICKS)
    def ack(self, pick: int) -> None:
        """Acknowledge any sequence, pending or not."""
        seq = self.picked(pick)
        model = self.model
        if self.config.ack_policy is AckPolicy.ALL:
            self.ack_all(seq)
            return
        owed = seq in model.due or seq in model.given_up
        assert self.state.ack(seq, model.first.get(seq, 1), self.now) == owed
        if seq in model.due:
            model.leave(seq)
        if owed:
            model.settled.add(seq)
            model.given_up.discard(seq)

    def ack_all(self, seq: int) -> None:
        """Acknowledge everything up to a sequence."""
        model = self.model
        consumer_seq = model.first.get(seq, 1)
        changes = model.floor[1] < seq <= model.seq
        assert self.state.ack(seq, consumer_seq, self.now) == changes
        if changes:
            for below in [s for s in model.first if s <= seq]:
                model.due.pop(below, None)
                model.given_up.discard(below)
                model.settled.add(below)
            model.floor = max(model.floor[0], consumer_seq), seq

    @rule(pick=PICKS, delay=st.sampled_from([None, 0, -5, S, 50 * S]))
    def nak(self, pick: int, delay: int | None) -> None:
        """Refuse any sequence, pending or not."""
        seq = self.picked(pick)
        pending = seq in self.model.due
        assert self.state.nak(seq, delay, self.now) == pending
        if pending and delay is not None and delay > 0:
            self.model.due[seq] = self.now + delay
        elif pending:
            self.model.due[seq] = 0

    @rule(pick=PICKS)
    def progress(self, pick: int) -> None:
        """Say that any sequence is being worked on."""
        seq = self.picked(pick)
        pending = seq in self.model.due
        assert self.state.progress(seq, self.now) == pending
        if pending and self.model.due[seq]:
            longer = self.now + self.wait(self.model.count[seq])
            self.model.due[seq] = max(self.model.due[seq], longer)

    @rule(pick=PICKS)
    def remove(self, pick: int) -> None:
        """Remove some messages from the stream."""
        seqs = {self.picked(pick // n) for n in (1, 7, 31)}
        pending = {seq for seq in seqs if seq in self.model.due}
        assert {gone.stream_seq for gone in self.state.forget(sorted(seqs), self.now)} == pending
        for seq in sorted(seqs):
            if seq in pending:
                self.model.leave(seq)
            self.model.given_up.discard(seq)
            if seq in self.model.first:
                self.model.settled.add(seq)

    @rule(whole=st.booleans())
    def write(self, whole: bool) -> None:
        """Write the state or what is new of it, and read it back."""
        if whole:
            self.written = [self.state.dump()]
        elif (delta := self.state.take_delta()) is not None:
            self.written.append(delta)
        assert ConsumerState.restore(self.config, self.written) == self.state
        self.saved = copy.deepcopy(self.model)

    @rule()
    def crash(self) -> None:
        """Lose all that was not written."""
        self.state = ConsumerState.restore(self.config, self.written)
        self.model = copy.deepcopy(self.saved)

    @invariant()
    def numbers_agree(self) -> None:
        """Compare what an info shows."""
        state, model = self.state, self.model
        assert floor(state) == model.floor
        assert (state.delivered.consumer_seq, state.delivered.stream_seq) == (model.consumer_seq, model.seq)
        assert state.num_ack_pending == len(model.due)
        assert state.num_queued == list(model.due.values()).count(0)
        redelivered = {s for s in model.due if model.count[s] > 1} | model.given_up
        assert state.num_redelivered == (0 if self.config.max_deliver == 1 else len(redelivered))
        assert all(state.pending(s) is not None for s in model.due)

    @invariant()
    def retention_keeps_what_is_owed(self) -> None:
        """Compare what is needed."""
        model = self.model
        for seq in range(1, model.seq + 3):
            owed = seq in model.due or seq in model.given_up or seq > model.seq
            unseen_all = self.config.ack_policy is AckPolicy.ALL and seq > model.floor[1]
            assert self.state.needs(seq) == (owed or unseen_all)

    def teardown(self) -> None:
        """Nothing is lost: messages are redelivered until they are settled or reach the delivery limit."""
        if not hasattr(self, "state"):
            return
        owed = set(self.model.due)
        seen = set()
        for _ in range(2):
            self.now += 1000 * S
            self.state.expire(self.now)
            while (seq := self.state.next_redelivery()) is not None:
                seen.add(seq)
                self.state.deliver(seq, self.now)
                self.state.ack(seq, self.model.first[seq], self.now)
        assert self.state.num_ack_pending == 0
        lost = owed - seen - {unsettled.stream_seq for unsettled in self.state.take_given_up()}
        assert lost == set() or self.config.ack_policy is AckPolicy.ALL


Consumer.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestAnyOrder = Consumer.TestCase


@pytest.mark.parametrize("seed", range(6))
def test_a_long_life_keeps_the_same_promises(seed: int) -> None:
    chance = random.Random(seed)
    consumer = Consumer()
    consumer.begin(chance.choice([-1, 3]), chance.choice([(), (2 * S, 7 * S)]), list(AckPolicy)[seed % 2 + 1])
    for _ in range(1500):
        pick = chance.randrange(2**20)
        match chance.choices(
            ["new", "again", "time", "ack", "nak", "progress", "remove", "write", "crash"], WEIGHTS
        )[0]:
            case "new":
                consumer.deliver_new(1 + pick % 6, pick % 4)
            case "again":
                consumer.deliver_again()
            case "time":
                consumer.time_passes(chance.choice([1, S, 2 * S, 9 * S, 30 * S]))
            case "ack":
                consumer.ack(pick)
            case "nak":
                consumer.nak(pick, chance.choice([None, 0, S, 50 * S]))
            case "progress":
                consumer.progress(pick)
            case "remove":
                consumer.remove(pick)
            case "write":
                consumer.write(pick % 10 == 0)
            case "crash":
                consumer.crash()
        consumer.numbers_agree()
    consumer.retention_keeps_what_is_owed()
    consumer.teardown()


def test_times_that_a_clock_set_back_has_not_reached_are_taken_as_now() -> None:
    config = ConsumerConfig(name="C", ack_policy=AckPolicy.EXPLICIT, ack_wait=30, max_deliver=-1)
    state = ConsumerState(config)
    state.deliver_run([1, 2, 3], 1_000)
    state.nak(2, 500, 1_010)
    state.nak(3, None, 1_010)
    state.ack(1, 1, 1_020)
    written = [state.dump()]
    later = ConsumerState.restore(config, written, 2_000)
    assert later == state
    restored = ConsumerState.restore(config, written, 100)
    assert restored.next_deadline() == 100 + 510
    assert restored.next_redelivery() == 3
    assert restored.delivered.last_active == restored.ack_floor.last_active == 100
    assert restored.expire(610) == [2]
