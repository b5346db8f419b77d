"""Holds all that the engine has against all that clients were promised."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from headwater.model.message import Message
from headwater.stream.stream import Stream
from headwater.wire.progress_json import REQUESTED_BY
from simulation.engine.bus import matches
from simulation.engine.model import SECOND, ConsumerModel, CopyModel, Json, Sent, StreamModel
from simulation.engine.topology import Topology
from simulation.engine.world import BrokenPromiseError, World, within

SCAN_S = 120.0
QUIET_S = 900.0
"""So much virtual time everything has to come to rest once nothing breaks any more."""
WITH_PROGRESS = f"NATS/1.0\r\n{REQUESTED_BY}: yes\r\n\r\n".encode()


class Audit:
    """Compares; the first difference ends the run."""

    def __init__(self, world: World, topology: Topology) -> None:
        self.world = world
        self.topology = topology
        self.found: dict[str, dict[int, Message]] = {}

    async def streams(self) -> None:
        """Compare what every stream holds; clients may be active at the same time."""
        self.world.counts["audit"] += 1
        for name in self._offline():
            raise BrokenPromiseError(f"stream {name} is offline: {self._offline()[name]}")
        for model in self._in_order():
            await self._stream(model)

    def _offline(self) -> dict[str, str]:
        assert self.world.seat is not None
        return dict(self.world.seat.domain.offline)

    @property
    def has_offline(self) -> bool:
        """Return whether a stream could not be opened."""
        return self.world.seat is not None and bool(self._offline())

    def _in_order(self) -> list[StreamModel]:
        """Return the copies first: what they hold, their origins need not."""
        streams = self.topology.streams.values()
        return sorted(streams, key=lambda model: not model.is_copy)

    async def _scan(self, name: str) -> dict[int, Message]:
        seat = self.world.seat
        assert seat is not None
        return await within(self._scanned(seat.domain.stream(name)), SCAN_S, f"a scan of {name}")

    async def _scanned(self, stream: Stream) -> dict[int, Message]:
        found: dict[int, Message] = {}
        async for messages in stream.reading.scan(1):
            for message in messages:
                if message.seq in found:
                    raise BrokenPromiseError(f"{stream.name} serves {message.seq} twice")
                found[message.seq] = message
        return found

    async def _stream(self, model: StreamModel) -> None:
        promised, asked_s = dict(model.stored), self.world.loop.time()
        gone = {seq for seq in promised if model.must_be_gone(seq)}
        written = [(writer, writer.confirmed) for writer in self.topology.bulk if writer.stream is model]
        found = self.found[model.name] = await self._scan(model.name)
        for message in found.values():
            model.served(message.seq, message.subject, message.headers, message.data, asked_s)
            if message.seq in gone:
                model.fail(f"{message.seq} was {model.must_be_gone(message.seq)} and is back")
        for writer, confirmed in written:
            writer.audit(confirmed)
        for copy in self.topology.copies:
            if copy.target is model:
                self._copied(copy, found)
        if model.copies and any(seq not in found and not model.why_gone(seq) for seq in promised):
            # Messages that were copied while we read are released here.
            for copy in model.copies:
                self._copied(copy, await self._scan(copy.target.name))
        for seq, sent in promised.items():
            if seq not in found and not model.why_gone(seq):
                model.fail(f"{seq} ({sent.data[:40]!r}) was acknowledged at {sent.acked_s:.3f} s and is gone")
        await self._state(model, promised)

    async def _state(self, model: StreamModel, promised: dict[int, Sent]) -> None:
        assert self.world.seat is not None
        asked = self.world.seat.domain.stream(model.name).reading.state()
        state = await within(asked, SCAN_S, f"the state of {model.name}")
        # What a power cut left as zeros or garbage may have been a batch, as far as the log can tell.
        lost = set(state.lost.msgs) if state.lost else set()
        if wrong := lost & {*promised, *self.found[model.name]}:
            model.fail(f"it reports {wrong} as lost")
        if promised and state.last_seq < max(promised):
            model.fail(f"it ends at {state.last_seq}, {max(promised)} was acknowledged")

    def _copied(self, copy: CopyModel, found: dict[int, Message]) -> None:
        """Compare what a target holds of one origin: content, order, once."""
        origin, last_seq = copy.origin, 0
        for message in found.values():
            sent = origin.sent.get(message.data)
            if sent is None:
                if not any(message.data in c.origin.sent for c in self._siblings(copy)):
                    copy.target.fail(f"{message.seq} is {message.data[:40]!r}, which no origin was offered")
                continue
            if message.subject != copy.subject_at_target(sent.subject):
                copy.target.fail(f"{message.seq} of {sent.subject!r} is on {message.subject!r}")
            seq = sent.seq or origin.seen_at.get(message.data, 0)
            if copy.is_mirror and seq and seq != message.seq and not sent.may_repeat:
                copy.target.fail(f"the origin's {seq} is {message.seq} here")
            if seq and seq <= last_seq and not sent.may_repeat:
                copy.target.fail(f"the origin's {seq} comes after its {last_seq}")
            if not sent.may_repeat:  # what was stored twice has two places, and we know only one
                last_seq = max(last_seq, seq)
            first = copy.held.setdefault(message.data, message.seq)
            if first != message.seq and not sent.may_repeat:
                copy.target.fail(f"{message.data[:40]!r} is at {first} and at {message.seq}")

    def _siblings(self, copy: CopyModel) -> list[CopyModel]:
        return [other for other in self.topology.copies if other.target is copy.target]

    # When all is quiet.

    async def at_rest(self) -> None:
        """Wait until all consumers and copies have everything, then compare that, too."""
        deadline = self.world.loop.time() + QUIET_S
        problem = "nothing was looked at"
        while self.world.loop.time() < deadline:
            problem = await self._unrest()
            if not problem:
                break
            await asyncio.sleep(5)
        if problem:
            raise BrokenPromiseError(f"stalled: {problem}")
        await self.streams()
        for model in self.topology.streams.values():
            self._limits(model)
            self._leftovers(model)
        for copy in self.topology.copies:
            await self._gaps(copy)

    async def _unrest(self) -> str:
        """Return what is not finished yet, or nothing."""
        for taker in self.topology.takers:
            if why := await self._consumer_unrest(taker.model):
                return why
        for ordered in self.topology.ordered:
            found = await self._scan(ordered.stream.name)
            if why := ordered.unrest(max(found, default=0)):
                return why
        for copy in self.topology.copies:
            self.found[copy.target.name] = await self._scan(copy.target.name)
            self._copied(copy, self.found[copy.target.name])
            self.found[copy.origin.name] = await self._scan(copy.origin.name)
            for seq, sent in copy.origin.stored.items():
                if not copy.has(copy.origin, sent) and not self._need_not_have(copy, seq):
                    return f"{copy.target.name} does not get {seq} of {copy.origin.name}"
        if missing := self.topology.stan.missing():
            return f"STAN did not deliver {len(missing)} messages, such as {min(missing)[:40]!r}"
        for churn in self.topology.churns:
            if not await churn.look():
                return f"{churn.stream} does not answer"
        return ""

    def _need_not_have(self, copy: CopyModel, seq: int) -> bool:
        """Return whether the origin may have lost a message before it was copied."""
        if not copy.origin.keeps_by_limits:
            return bool(copy.origin.why_gone(seq)) and seq in copy.origin.deletable
        return bool(copy.origin.why_gone(seq)) and seq not in self.found.get(copy.origin.name, {})

    async def _consumer_unrest(self, model: ConsumerModel) -> str:
        info = await self.topology.api.ask(f"CONSUMER.INFO.{model.stream.name}.{model.name}")
        named = f"{model.stream.name}/{model.name}"
        if info is None or "error" in info:
            return f"consumer {named} answers {info}"
        if info["num_pending"] or info["num_ack_pending"]:
            return f"consumer {named} has {info['num_pending']} pending, {info['num_ack_pending']} unacked"
        found = self.found[model.stream.name] = await self._scan(model.stream.name)
        for message in found.values():
            if model.takes(message.subject) and message.seq not in model.acks_sent:
                count = model.delivered[message.seq]
                return (
                    f"consumer {named} has nothing to do, {message.seq} was sent {count} times, never acked"
                )
        return ""

    def _limits(self, model: StreamModel) -> None:
        """Compare with the stream's limits."""
        found, config = self.found[model.name], model.config
        if 0 < config.get("max_msgs", -1) < len(found):
            model.fail(f"it holds {len(found)} messages, max_msgs is {config['max_msgs']}")
        per_subject = Counter(message.subject for message in found.values())
        if found and 0 < config.get("max_msgs_per_subject", -1) < max(per_subject.values()):
            model.fail(f"it holds {per_subject}, max_msgs_per_subject is {config['max_msgs_per_subject']}")
        now_ns = self.world.now_ns() - 60 * SECOND
        for message in found.values():
            if config.get("max_age") and message.ts + config["max_age"] < now_ns:
                model.fail(f"{message.seq} is older than max_age")
            sent = model.stored.get(message.seq)
            if sent is not None and sent.ttl_ns and message.ts + sent.ttl_ns < now_ns:
                model.fail(f"{message.seq} has outlived its TTL")

    def _leftovers(self, model: StreamModel) -> None:
        """Check that queues release the messages that every target has."""
        if model.keeps_by_limits:
            return
        for message in self.found[model.name].values():
            takers = [c for c in model.consumers if c.takes(message.subject)]
            sent = model.stored[message.seq]
            if all(message.seq in c.settled for c in takers) and all(
                copy.has(model, sent) for copy in model.copies
            ):
                model.fail(f"{message.seq} stays although everybody is done with it")

    async def _gaps(self, copy: CopyModel) -> None:
        """See that gaps are reported when and only when something is missing."""
        info = await self.topology.api.ask(f"STREAM.INFO.{copy.target.name}", headers=WITH_PROGRESS)
        assert info is not None
        shown = _upstream_of(info, copy.origin.name)
        gaps = shown["headwater"].get("gaps", {})
        ranges = [(gap["first_seq"], gap["last_seq"]) for gap in gaps.get("recent", [])]
        complete = gaps.get("count", 0) == len(ranges)
        held = {
            sent.seq for data in copy.held if (sent := copy.origin.sent.get(data)) is not None and sent.seq
        }
        for first, last in ranges:
            self.world.counts["gap"] += 1
            if inside := [seq for seq in held if first <= seq <= last]:
                copy.target.fail(f"{inside} are in the gap {first} to {last} and were copied")
        begun = min(held, default=None)
        for seq, sent in copy.origin.stored.items():
            if begun is None or seq < begun or not complete or copy.has(copy.origin, sent):
                continue
            if self._only_from_front(copy.origin, seq) and not any(a <= seq <= b for a, b in ranges):
                copy.target.fail(f"the origin's {seq} is missing, and in no gap of {ranges}: {shown}")

    def _only_from_front(self, origin: StreamModel, seq: int) -> bool:
        """Return whether only a rule that takes from the front can have taken a message."""
        config, sent = origin.config, origin.stored[seq]
        return (
            not (
                seq in origin.deletable
                or sent.ttl_ns
                or config.get("max_msgs_per_subject", -1) > 0
                or config.get("allow_rollup_hdrs")
                or any(p.pattern != b">" and matches(p.pattern, sent.subject) for p in origin.purges)
            )
            and origin.keeps_by_limits
        )


def _upstream_of(info: Json, origin: str) -> dict[str, Any]:
    """Return how a stream's info shows one of its upstreams."""
    shown = [info["mirror"]] if "mirror" in info else info.get("sources", [])
    return next(dict(upstream) for upstream in shown if upstream["name"] == origin)
