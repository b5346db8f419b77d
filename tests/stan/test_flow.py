"""Tests of stan.flow."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.stan.flow import NEAR_NS, ChannelFlow, Member

SECOND = 1_000_000_000


def a_flow(*limits: int, ack_wait_s: int = 30) -> tuple[ChannelFlow, list[Member]]:
    flow = ChannelFlow(0)
    members = [Member(limit, ack_wait_s * SECOND) for limit in limits]
    for member in members:
        flow.join(member)
    return flow, members


def again(flow: ChannelFlow, now_ns: int) -> list[tuple[int, int]]:
    return [(one.seq, one.count) for one in flow.due(now_ns)]


def test_a_member_gets_no_more_than_it_may_hold() -> None:
    flow, (member,) = a_flow(3)
    assert flow.room() == 3
    assert flow.send([1, 2, 3], 3, 0) == [(member, [1, 2, 3])]
    assert (flow.room(), member.is_stalled) == (0, True)
    assert flow.acknowledge(member, 2)
    assert not flow.acknowledge(member, 2)
    assert (flow.room(), flow.last_sent, list(flow.pending)) == (1, 3, [1, 3])


def test_what_is_not_acknowledged_comes_again_in_rhythm() -> None:
    flow, (member,) = a_flow(1, ack_wait_s=1)
    flow.send([1], 1, 0)
    assert flow.next_due_ns(0) == SECOND
    assert again(flow, SECOND - NEAR_NS - 1) == []
    assert again(flow, SECOND - NEAR_NS) == [(1, 1)]
    assert flow.next_due_ns(SECOND) == 2 * SECOND
    assert again(flow, 2 * SECOND) == [(1, 2)]
    assert again(flow, 60 * SECOND) == [(1, 3)]
    assert flow.next_due_ns(60 * SECOND) == 61 * SECOND
    flow.acknowledge(member, 1)
    assert flow.next_due_ns(60 * SECOND) is None


def test_what_was_perhaps_sent_before_a_crash_counts_as_sent_once() -> None:
    flow = ChannelFlow(1, [1], doubted_through=3)
    member = Member(10, SECOND)
    flow.join(member)
    assert again(flow, 0) == [(1, 1)]
    flow.send([2, 3, 4], 4, 0)
    assert flow.acknowledge(member, 2)
    assert again(flow, SECOND) == [(1, 2), (3, 2), (4, 1)]


def test_what_comes_again_ignores_how_much_may_be_held() -> None:
    flow, (member,) = a_flow(2)
    flow.send([1, 2], 2, 0)
    flow.leave(member)
    late = Member(1, 30 * SECOND)
    flow.join(late)
    assert flow.room() == 0
    assert again(flow, 0) == [(1, 1), (2, 1)]
    assert (late.held, late.is_stalled, flow.room()) == (2, True, 0)


def test_nothing_new_is_sent_before_unassigned_messages() -> None:
    flow = ChannelFlow(9, unheld=[3, 7])
    assert flow.due(0) == []
    member = Member(10, SECOND)
    flow.join(member)
    assert flow.room() == 0
    assert again(flow, 0) == [(3, 1), (7, 1)]
    assert flow.room() == 8


def test_a_message_goes_to_the_member_with_the_fewest_pending() -> None:
    flow, (a, b, c) = a_flow(10, 10, 10)
    flow.send([1, 2, 3], 3, 0)
    assert [a.held, b.held, c.held] == [1, 1, 1]
    flow.acknowledge(b, next(iter(b.first)))
    ((member, _),) = flow.send([4], 4, 0)
    assert member is b


def test_members_take_turns_when_each_acknowledges_at_once() -> None:
    flow, members = a_flow(10, 10, 10)
    counts = dict.fromkeys(members, 0)
    for seq in range(1, 31):
        ((member, _),) = flow.send([seq], seq, 0)
        counts[member] += 1
        flow.acknowledge(member, seq)
    assert list(counts.values()) == [10, 10, 10]


def test_the_group_stalls_when_every_member_does() -> None:
    flow, (small, large) = a_flow(1, 3)
    shares = dict(flow.send([1, 2, 3, 4], 4, 0))
    assert (len(shares[small]), len(shares[large])) == (1, 3)
    assert flow.room() == 0


def test_what_expired_with_one_member_goes_to_the_other() -> None:
    flow, (a, b) = a_flow(1, 1)
    flow.send([1], 1, 0)
    holder, other = (a, b) if a.held else (b, a)
    (sent,) = flow.due(30 * SECOND)
    assert (sent.member, sent.seq, sent.count) == (other, 1, 1)
    assert flow.acknowledge(holder, 1), "an acknowledgement counts for whoever holds the message now"
    assert not flow.pending


def test_what_a_member_held_is_shared_out_when_it_leaves() -> None:
    flow, (a, b, c) = a_flow(4, 4, 4)
    flow.send(list(range(1, 13)), 12, 0)
    flow.leave(a)
    assert len(flow.due(0)) == 4
    assert (b.held, c.held) == (6, 6)


def test_a_member_in_doubt_is_spared_where_another_is_there() -> None:
    flow, (a, b) = a_flow(5, 5)
    a.in_doubt = True
    assert flow.send([1, 2], 2, 0) == [(b, [1, 2])]
    b.in_doubt = True
    assert flow.room() == 8


def test_a_lone_member_in_doubt_gets_nothing_again_before_it_answers() -> None:
    flow, (member,) = a_flow(5, ack_wait_s=1)
    flow.send([1], 1, 0)
    member.in_doubt = True
    assert flow.due(SECOND) == []
    assert flow.next_due_ns(SECOND) == 2 * SECOND
    member.in_doubt = False
    assert again(flow, 2 * SECOND) == [(1, 1)]


def test_an_absent_subscriber_gets_nothing_and_everything_again_when_it_returns() -> None:
    flow, (member,) = a_flow(5)
    flow.send([1, 2], 2, 0)
    member.is_ready = False
    assert (flow.room(), flow.next_due_ns(0), flow.due(90 * SECOND)) == (0, None, [])
    member.is_ready = True
    flow.release(member)
    assert again(flow, 90 * SECOND) == [(1, 1), (2, 1)]


def test_a_message_that_is_gone_is_forgotten() -> None:
    flow = ChannelFlow(5, unheld=[4])
    assert flow.forget(4)
    assert not flow.forget(4)
    assert not flow.pending


class Flows(RuleBasedStateMachine):
    """A sent message is pending, queued or acknowledged at any time, and new messages are sent in order."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = ChannelFlow(0)
        self.now = 0
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()

    @rule(limit=st.integers(1, 5), wait_s=st.integers(1, 5))
    @precondition(lambda self: len(self.flow.members) < 4)
    def join(self, limit: int, wait_s: int) -> None:
        self.flow.join(Member(limit, wait_s * SECOND))

    @rule(data=st.data())
    @precondition(lambda self: self.flow.members)
    def leave(self, data: st.DataObject) -> None:
        self.flow.leave(data.draw(st.sampled_from(self.flow.members)))

    @rule(data=st.data(), doubt=st.booleans(), ready=st.booleans())
    @precondition(lambda self: self.flow.members)
    def change(self, data: st.DataObject, doubt: bool, ready: bool) -> None:
        member = data.draw(st.sampled_from(self.flow.members))
        member.in_doubt, member.is_ready = doubt, ready

    @rule(wanted=st.integers(1, 8), skipped=st.integers(0, 2))
    def send(self, wanted: int, skipped: int) -> None:
        room = self.flow.room()
        first = self.flow.last_sent + 1 + skipped
        seqs = list(range(first, first + min(wanted, room)))
        if not seqs:
            return
        shares = self.flow.send(seqs, seqs[-1], self.now)
        assert sorted(seq for _, share in shares for seq in share) == seqs
        for member, share in shares:
            assert share == sorted(share)
            assert member.is_ready
            assert member.held <= member.max_in_flight
        self.sent.update(seqs)

    @rule(data=st.data())
    @precondition(lambda self: self.flow.members and self.sent)
    def acknowledge(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.flow.members))
        seq = data.draw(st.sampled_from(sorted(self.sent)))
        assert self.flow.acknowledge(member, seq) is (seq not in self.acknowledged)
        self.acknowledged.add(seq)

    @rule(seconds=st.integers(0, 7))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND
        for one in self.flow.due(self.now):
            assert one.seq in self.sent - self.acknowledged
            assert one.member.is_ready
            assert one.count > 0
        due = self.flow.next_due_ns(self.now)
        assert due is None or due > self.now

    @rule()
    @precondition(lambda self: any(m.is_ready and not m.in_doubt for m in self.flow.members))
    def everything_comes_again(self) -> None:
        for member in self.flow.members:
            member.in_doubt, member.is_ready = False, True
        self.now += 60 * SECOND
        assert {one.seq for one in self.flow.due(self.now)} == self.sent - self.acknowledged

    @rule()
    def restart(self) -> None:
        members = self.flow.members
        self.flow = ChannelFlow(self.flow.last_sent, self.flow.pending)
        for member in members:
            self.flow.join(Member(member.max_in_flight, member.ack_wait_ns))

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(self.flow.pending) == self.sent - self.acknowledged


TestFlows = Flows.TestCase
