"""The acks of a stream's consumers: settled together, recorded, and confirmed once that is durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumer_index import ConsumerIndex
from headwater.delivery.needs import MessageNeeds
from headwater.delivery.state_recorder import StateRecorder
from headwater.wire.ack_body import ACK, DONE, AckBody, AckKind, parse_ack_body
from headwater.wire.ack_subject import read_ack
from headwater.wire.frames import Frame

if TYPE_CHECKING:
    from headwater.delivery.consumer import Consumer

_NO_ACK = (b"", 0, 0, 0)
_LONG = 19
"""A sequence with this many digits may be too large, and is checked separately."""


class Acks:
    """Processes the acks of all consumers of a stream; a sink of the bus."""

    def __init__(
        self,
        index: ConsumerIndex,
        needs: MessageNeeds,
        recorder: StateRecorder,
        advisories: ConsumerAdvisories,
        clock: Clock,
    ) -> None:
        self.items: list[Frame] = []
        """The acks that arrived and are not processed yet; the bus adds them."""
        self._index = index
        self._needs = needs
        self._recorder = recorder
        self._advisories = advisories
        self._clock = clock

    def flush(self) -> None:
        """Process the acks that have arrived.

        Most are plain acks: those of one consumer are settled together. They are made durable at once if that
        removes messages or a client waits for the confirmation, otherwise soon.
        """
        items, self.items[:] = list(self.items), []
        confirmed: list[bytes] = []
        plain: dict[bytes, list[int]] = {}
        at_once = self._needs.is_emptied
        for subject, reply, _, body in items:
            if not reply and body in DONE:
                # From a consumer's second ack on, only the sequence matters.
                tokens = subject.rsplit(b".", 5)
                seqs = plain.get(tokens[0])
                if seqs is not None and tokens[2].isdigit() and len(tokens[2]) < _LONG:
                    seqs.append(int(tokens[2]))
                    continue
            key, count, seq, consumer_seq = read_ack(subject) or _NO_ACK
            consumer = self._index.by_key.get(key)
            if consumer is None:
                continue
            ack = parse_ack_body(body)
            if ack is ACK and consumer.config.settles_single and not consumer.config.sample_percent:
                plain.setdefault(key, []).append(seq)
                answered = seq < consumer.state.next_seq
            else:
                at_once = True
                self._settle_each(plain)
                answered = self._take(consumer, ack, count, seq, consumer_seq)
            if ack.kind is AckKind.NEXT:
                consumer.pull_next(ack.request, reply)
            elif reply and answered:
                confirmed.append(b"PUB %b 0\r\n\r\n" % reply)
        self._settle_each(plain)
        if at_once or confirmed:
            self._recorder.record(confirmed)

    def _settle_each(self, plain: dict[bytes, list[int]]) -> None:
        """Settle messages by the keys of their ack subjects, each consumer's together."""
        for key, seqs in plain.items():
            consumer = self._index.by_key[key]
            settled = consumer.state.ack_each(seqs, self._clock.steady_ns())
            if settled:
                self._recorder.meters.acks += len(settled)
                self._recorder.changed(consumer)
                consumer.wake()
                if self._needs.is_emptied:
                    self._recorder.settled(consumer, settled)
        plain.clear()

    def _take(self, consumer: Consumer, ack: AckBody, count: int, seq: int, consumer_seq: int) -> bool:
        """Process an ack; return whether it may be confirmed."""
        now_ns = self._clock.steady_ns()
        match ack.kind:
            case AckKind.NAK:
                if consumer.state.nak(seq, ack.delay_ns, now_ns):
                    self._recorder.meters.naks += 1
                    self._recorder.touched(consumer)
                    consumer.wake()
                    self._advisories.nak(consumer, seq, consumer_seq, count)
                return True
            case AckKind.PROGRESS:
                if consumer.state.progress(seq, now_ns):
                    self._recorder.touched(consumer)
                return True
            case AckKind.UNKNOWN:
                return True
            case AckKind.TERM:
                self._advisories.terminated(consumer, seq, consumer_seq, count, ack.reason)
            case _:
                self._advisories.sample(consumer, seq, consumer_seq, count)
        if seq >= consumer.state.next_seq and not consumer.config.flow_control:
            return False
        if self._settle(consumer, seq, lambda: consumer.state.ack(seq, consumer_seq, now_ns)):
            self._recorder.meters.acks += ack.kind is not AckKind.TERM
            self._recorder.meters.terminated += ack.kind is AckKind.TERM
            consumer.wake()
        return not consumer.config.acks_at_delivery or self._needs.is_emptied

    def _settle(self, consumer: Consumer, seq: int, acknowledge: Callable[[], bool]) -> bool:
        """Settle a message, with those before it if an ack covers them, and mark them for removal."""
        settled: Sequence[int] = ()
        if self._needs.is_emptied:
            settled = [seq] if consumer.config.settles_single else consumer.state.pending_through(seq)
        changed = acknowledge()
        if changed:
            self._recorder.settled(consumer, settled)
        return changed

    def flow_answered(self, name: str, subject: bytes, headers: bytes) -> None:
        """Process a flow control reply to a consumer."""
        consumer = self._index.get(name)
        if consumer is None:
            return
        through = consumer.confirmed_seq(headers)
        if self._settle(consumer, through, lambda: consumer.flow_answered(subject, headers)):
            self._recorder.record()
