"""How fast an upstream copies and how far it has to go, in sequences of its origin."""

from __future__ import annotations

from headwater.upstreams.rate import SECOND, Rate

LIVE_NS = 10 * SECOND
"""An upstream is live if its oldest message to copy is younger than this."""


class Pace:
    """The measured speed of one upstream; every call gets the current time."""

    def __init__(self) -> None:
        self.msgs = Rate()
        """Copied messages a second."""
        self.size = Rate()
        """Copied bytes a second."""
        self.copied_msgs = 0
        self.copied_bytes = 0
        self.committed_ns = 0
        """When something was last committed; 0 for never."""
        self.origin_last_seq = 0
        """The origin's last sequence at the last look."""
        self.began_seq = 0
        """The cursor's sequence when the present catch-up began."""
        self._was_live = False
        """Whether it was live at the last check."""
        self.seqs = Rate()
        """Sequences of the origin that copies cover a second."""
        self._growth = Rate()
        """How fast the origin grows, in sequences."""
        self._at_seq = -1
        """The last copied sequence; -1 before the first check."""
        self._oldest_seq = 0
        """The sequence whose age `_oldest_ns` is."""
        self._oldest_ns = 0
        """When the message at `_oldest_seq`, the next to copy, was stored at the origin; 0 if unknown."""

    def saw(self, start_seq: int, last_seq: int, now_ns: int) -> None:
        """Record the origin's last sequence, and the next one to copy."""
        if self.origin_last_seq and last_seq > self.origin_last_seq:
            self._growth.add(last_seq - self.origin_last_seq, now_ns)
        else:
            self._growth.begin(now_ns)
        self.origin_last_seq = last_seq
        if self._at_seq < 0 or start_seq - 1 < self._at_seq:
            self.began_seq = self._at_seq = start_seq - 1
        if start_seq > last_seq:
            self._was_live = True
            self.began_seq = self._at_seq = start_seq - 1
            self._oldest_ns = 0

    def handed_out(self, now_ns: int) -> None:
        """Record that a copy begins."""
        for rate in (self.msgs, self.size, self.seqs):
            rate.begin(now_ns)

    def committed(self, msgs: int, size: int, through_seq: int, now_ns: int) -> None:
        """Record that this much was copied, up to this sequence."""
        self.copied_msgs += msgs
        self.copied_bytes += size
        self.msgs.add(msgs, now_ns)
        self.size.add(size, now_ns)
        self.seqs.add(max(through_seq - max(self._at_seq, 0), 0), now_ns)
        self._at_seq = max(through_seq, self._at_seq)
        self.committed_ns = now_ns

    def wants_age(self, start_seq: int) -> bool:
        """Return whether the age of the next message to copy is unknown."""
        return start_seq <= self.origin_last_seq and not (self._oldest_ns and self._oldest_seq == start_seq)

    def aged(self, start_seq: int, oldest_ns: int) -> None:
        """Record when the oldest message from this sequence on was stored at the origin."""
        self._oldest_seq, self._oldest_ns = start_seq, oldest_ns

    def is_live(self, now_ns: int) -> bool:
        """Return whether the upstream keeps up with its origin: no message has waited long."""
        if self._oldest_ns:
            self._was_live = bool(self.committed_ns) and now_ns - self._oldest_ns < LIVE_NS
        return self._was_live

    def behind_s(self, lag: int, now_ns: int) -> float | None:
        """Return the age of the oldest message that is not copied yet; None if unknown."""
        if not lag:
            return 0.0
        return max(now_ns - self._oldest_ns, 0) / SECOND if self._oldest_ns else None

    def caught_up_in_s(self, lag: int, now_ns: int) -> float | None:
        """Return in how many seconds it catches up at the present speed; None if it does not gain."""
        if not lag:
            return 0.0
        gain = self.seqs.at(now_ns) - self._growth.at(now_ns)
        left = self.origin_last_seq - max(self._at_seq, 0)
        return left / gain if gain > 0 and left > 0 else None
