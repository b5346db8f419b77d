"""The flow of a channel's messages to one subscription, or to the members of a queue group.

A member holds each message sent to it until the message is acknowledged. A message without a holder, because
its holder left or the engine restarted, is redelivered before anything new is sent. Pure code: the caller
passes the time and the channel's messages, and the flow decides which messages go to which member.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

NEAR_NS = 15_000_000
"""Messages that expire within this time are redelivered together."""


@dataclass(eq=False, slots=True)
class Member:
    """One subscription's part in a flow."""

    max_in_flight: int
    ack_wait_ns: int
    is_ready: bool = True
    """Whether messages may be sent: the client has the answer to its request and listens."""
    in_doubt: bool = False
    """Whether its client misses heartbeats."""
    first: dict[int, int] = field(default_factory=dict)
    """The expiry of each message sent once, in the order of sending, which is also the order of expiry."""
    again: dict[int, int] = field(default_factory=dict)
    """The expiry of each message sent more than once, unordered."""

    @property
    def held(self) -> int:
        """Return the number of unacknowledged messages."""
        return len(self.first) + len(self.again)

    @property
    def is_stalled(self) -> bool:
        """Return whether the member must acknowledge before it gets new messages."""
        return self.held >= self.max_in_flight

    @property
    def room(self) -> int:
        """Return how many new messages may be sent to the member."""
        return max(0, self.max_in_flight - self.held)


@dataclass(frozen=True, slots=True)
class Redelivery:
    """A redelivery: the message, the member, and the number of deliveries so far."""

    member: Member
    seq: int
    count: int


class ChannelFlow:
    """The sent and unacknowledged messages of a flow, and the due redeliveries."""

    def __init__(self, last_sent: int, unheld: Iterable[int] = (), doubted_through: int = 0) -> None:
        self.last_sent = last_sent
        self.doubted_through = doubted_through
        """Up to here, deliveries may have been lost in a crash; messages are marked as redelivered."""
        self.members: list[Member] = []
        self._unheld = BitMap64(unheld)
        """Sent messages that no member holds; they are redelivered first."""
        self._counts: dict[int, int] = {}
        """How often messages were redelivered; one without an entry never was."""
        self._turn = 0
        """The index of the member that is next in turn."""

    @property
    def pending(self) -> BitMap64:
        """Return the unacknowledged sequences."""
        pending = BitMap64(self._unheld)
        for member in self.members:
            pending.update(member.first, member.again)
        return pending

    @property
    def has_unheld(self) -> bool:
        """Return whether a message without a holder can be redelivered now."""
        return bool(self._unheld) and bool(self._takers())

    def join(self, member: Member) -> None:
        """Add a member."""
        self.members.append(member)

    def leave(self, member: Member) -> None:
        """Remove a member; its messages are redelivered to other or later members."""
        self.members.remove(member)
        self.release(member)

    def release(self, member: Member) -> None:
        """Redeliver the messages that a member holds before anything new: they may never have arrived."""
        self._unheld.update(member.first, member.again)
        member.first.clear()
        member.again.clear()

    def room(self) -> int:
        """Return how many new messages can be sent now."""
        return 0 if self._unheld else sum(member.room for member in self._takers())

    def _takers(self) -> list[Member]:
        """Return the members to send to; members in doubt only if there is no other."""
        ready = [member for member in self.members if member.is_ready]
        return [member for member in ready if not member.in_doubt] or ready

    def send(self, seqs: Sequence[int], through_seq: int, now_ns: int) -> list[tuple[Member, list[int]]]:
        """Assign new messages to members; there must be room.

        `through_seq` is the last sequence of the channel that was examined.
        """
        assert through_seq >= self.last_sent
        self.last_sent = through_seq
        if seqs and seqs[0] <= self.doubted_through:
            self._counts.update({seq: 1 for seq in seqs if seq <= self.doubted_through})
        takers = self._takers()
        if len(takers) == 1:
            shares = {takers[0]: list(seqs)}
        else:
            shares = self._shared(takers, seqs)
        for member, share in shares.items():
            assert len(share) <= member.room
            member.first.update(dict.fromkeys(share, now_ns + member.ack_wait_ns))
        return [(member, share) for member, share in shares.items() if share]

    def _shared(self, takers: list[Member], seqs: Sequence[int]) -> dict[Member, list[int]]:
        """Return each member's messages: the one that holds the fewest is next, in turns among equals."""
        shares: dict[Member, list[int]] = {member: [] for member in takers}
        count = len(takers)
        heap = [
            (member.held, (index - self._turn) % count, member.max_in_flight, member)
            for index, member in enumerate(takers)
            if member.room
        ]
        heapq.heapify(heap)
        for seq in seqs:
            held, turn, limit, member = heap[0]
            shares[member].append(seq)
            if held + 1 >= limit:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (held + 1, turn, limit, member))
        if count:
            self._turn = (self._turn + len(seqs)) % count
        return shares

    def acknowledge(self, member: Member, seq: int) -> bool:
        """Apply an acknowledgement, whichever member holds the message now; return whether it had effect."""
        if member.first.pop(seq, None) is not None:
            if self._counts:
                self._counts.pop(seq, None)
            return True
        for holder in (member, *self.members):
            if holder.first.pop(seq, None) is not None or holder.again.pop(seq, None) is not None:
                self._counts.pop(seq, None)
                return True
        return self.forget(seq)

    def acknowledge_all(self, member: Member, seqs: Iterable[int]) -> bool:
        """Apply a member's acknowledgements; return whether they changed anything."""
        first, counts, changed = member.first, self._counts, False
        for seq in seqs:
            if (not counts and first.pop(seq, None) is not None) or self.acknowledge(member, seq):
                changed = True
        return changed

    def forget(self, seq: int) -> bool:
        """Drop a message without a holder; return whether there was one."""
        self._counts.pop(seq, None)
        if seq in self._unheld:
            self._unheld.remove(seq)
            return True
        return False

    def due(self, now_ns: int) -> list[Redelivery]:
        """Return due redeliveries: first messages without a holder, then expired ones."""
        if not self._takers():
            return []
        unheld, self._unheld = list(self._unheld), BitMap64()
        expired = sorted(
            (expiry, seq, member)
            for member in self.members
            for seq, expiry in self._expired(member, now_ns + NEAR_NS)
        )
        due = [self._again(self._best(), seq, now_ns, now_ns) for seq in unheld]
        for expiry, seq, member in expired:
            to = self._best() if len(self.members) > 1 else member
            if to.in_doubt or not to.is_ready:
                # Nothing is sent to a member in doubt; it keeps the message for another ack wait.
                member.again[seq] = max(expiry, now_ns) + member.ack_wait_ns
                continue
            due.append(self._again(to, seq, expiry, now_ns))
        return due

    def _expired(self, member: Member, until_ns: int) -> list[tuple[int, int]]:
        """Remove and return a member's expired messages."""
        expired = []
        for seq, expiry in member.first.items():
            if expiry > until_ns:
                break
            expired.append((seq, expiry))
        expired += [(seq, expiry) for seq, expiry in member.again.items() if expiry <= until_ns]
        for seq, _ in expired:
            member.first.pop(seq, None)
            member.again.pop(seq, None)
        return expired

    def _best(self) -> Member:
        """Return the member for the next redelivery: the one that holds the fewest, even if it is full."""
        takers = self._takers()
        turn = self._turn % len(takers)
        self._turn = turn + 1
        return min(takers[turn:] + takers[:turn], key=lambda member: member.held)

    def _again(self, member: Member, seq: int, expiry_ns: int, now_ns: int) -> Redelivery:
        count = self._counts[seq] = self._counts.get(seq, 0) + 1
        # Counted from the old expiry so that the interval does not drift, but never in the past.
        next_ns = expiry_ns + member.ack_wait_ns
        member.again[seq] = next_ns if next_ns > now_ns else now_ns + member.ack_wait_ns
        return Redelivery(member, seq, count)

    def next_due_ns(self, now_ns: int) -> int | None:
        """Return the time of the next redelivery; None if there is no member to send to."""
        if not self._takers():
            return None
        if self._unheld:
            return now_ns
        times = []
        for member in self.members:
            if member.first:
                times.append(next(iter(member.first.values())))
            if member.again:
                times.append(min(member.again.values()))
        return min(times, default=None)
