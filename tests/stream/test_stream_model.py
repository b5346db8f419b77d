"""Whatever is done to a stream, it holds what the simple model holds, and so does what is replayed of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.model.columns import Columns
from headwater.model.message import Message
from headwater.model.stream import Discard, Storage, StreamConfig
from headwater.stream.ledger import Ledger
from headwater.stream.store import Store
from headwater.stream.stream import Stream
from stream.model import SECOND, Model
from stream.streams import Workshop, config_of, everything, headers
from table.samples import columns_of

SUBJECTS = [b"a.1", b"a.2", b"b.1", "ü.1".encode()]
PATTERNS = ["", ">", "a.*", "a.1", "*.1", "c"]

LIMITS: dict[str, dict[str, Any]] = {
    "no limits": {},
    "max_msgs": {"max_msgs": 5},
    "max_bytes": {"max_bytes": 400},
    "max_age": {"max_age": 3 * SECOND},
    "one per subject": {"max_msgs_per_subject": 1},
    "three per subject": {"max_msgs_per_subject": 3, "max_msgs": 6},
    "a hundred per subject": {"max_msgs_per_subject": 100, "max_bytes": 2000},
    "discard new": {"max_msgs": 6, "max_bytes": 500, "discard": Discard.NEW},
    "discard new, one per subject": {"max_msgs": 3, "max_msgs_per_subject": 1, "discard": Discard.NEW},
    "discard new per subject": {
        "max_msgs": 6,
        "max_msgs_per_subject": 2,
        "discard": Discard.NEW,
        "discard_new_per_subject": True,
    },
    "memory": {"storage": Storage.MEMORY, "max_msgs": 8, "max_age": 5 * SECOND},
}

blocks = st.one_of(
    st.just(b""),
    st.just(headers(Key="value")),
    st.sampled_from("xyz").map(lambda i: headers(Nats_Msg_Id=i)),
    st.sampled_from(["1", "3", "never"]).map(lambda t: headers(Nats_TTL=t)),
    st.sampled_from(["sub", "all"]).map(lambda r: headers(Nats_Rollup=r)),
    st.integers(0, 12).map(lambda n: headers(Nats_Expected_Last_Sequence=str(n))),
    st.integers(0, 12).map(lambda n: headers(Nats_Expected_Last_Subject_Sequence=str(n))),
)
items = st.tuples(st.sampled_from(SUBJECTS), st.just(b"") | blocks, st.binary(max_size=40))
plain_items = st.tuples(st.sampled_from(SUBJECTS[:3]), st.just(b""), st.binary(max_size=40))
offers = st.tuples(
    st.just("offer"), st.lists(items, min_size=1, max_size=6) | st.lists(plain_items, min_size=1, max_size=6)
)
seqs = st.integers(0, 25)
operations = st.one_of(
    offers,
    offers,
    offers,
    st.tuples(st.just("remove"), seqs),
    st.tuples(st.just("purge"), st.tuples(st.sampled_from(["", "a.*", "a.1", ">"]), seqs, st.just(0))),
    st.tuples(
        st.just("purge"), st.tuples(st.sampled_from(["", "a.*", "b.1"]), st.just(0), st.integers(1, 3))
    ),
    st.tuples(st.just("advance"), st.integers(0, 4 * SECOND)),
    st.tuples(
        st.just("reconfigure"),
        st.fixed_dictionaries(
            {},
            optional={
                "max_msgs": st.sampled_from([-1, 2, 4]),
                "max_bytes": st.sampled_from([-1, 150, 300]),
                "max_msgs_per_subject": st.sampled_from([-1, 1, 2, 70]),
                "max_age": st.sampled_from([0, SECOND, 5 * SECOND]),
            },
        ),
    ),
    st.tuples(st.sampled_from(["fold", "checkpoint", "tidy", "reopen"]), st.none()),
    st.tuples(st.just("load"), st.tuples(st.integers(0, 3), st.lists(items, max_size=3), st.integers(0, 2))),
)


class Comparison:
    """A stream and the model of it, driven together."""

    def __init__(self, workshop: Workshop, config: StreamConfig) -> None:
        self.workshop = workshop
        self.model = Model(config, workshop.clock)
        self.stream: Stream
        self.copies = 0

    async def run(self, steps: list[tuple[str, Any]]) -> None:
        self.stream = await self.workshop.open(self.model.config)
        for name, argument in steps:
            await getattr(self, name)(argument)
            await self.agree()
        await self.stream.close()

    async def offer(self, offered: list[tuple[bytes, bytes, bytes]]) -> None:
        self.stream.publishing.offer([(s, b"r%d" % n, h, d) for n, (s, h, d) in enumerate(offered)])
        await self.stream.publishing.settled()
        answers = self.workshop.answers.take()
        replies = [answers[b"r%d" % n] for n in range(len(offered))]
        assert [None if "error" in answer else answer["seq"] for answer in replies] == self.model.offer(
            offered
        )

    async def remove(self, seq: int) -> None:
        assert await self.stream.retention.remove(seq) == bool(self.model.remove([seq]))

    async def purge(self, argument: tuple[str, int, int]) -> None:
        pattern, seq, keep = argument
        purged = await self.stream.retention.purge(filter=pattern, seq=seq, keep=keep)
        assert purged == self.model.purge("" if pattern == ">" else pattern, seq, keep)

    async def advance(self, nanoseconds: int) -> None:
        self.workshop.clock.advance(nanoseconds)
        due = self.stream.retention.next_expiry_ns()
        gone = 0
        if due is not None and due <= self.workshop.clock.now_ns():
            gone = await self.stream.retention.expire(self.workshop.clock.now_ns())
        assert gone == self.model.expire()

    async def reconfigure(self, changes: dict[str, Any]) -> None:
        config = msgspec.structs.replace(self.model.config, **changes)
        await self.stream.reconfigure(config)
        self.model.reconfigure(config)

    async def fold(self, _: None) -> None:
        await self.stream.folder.fold()

    async def checkpoint(self, _: None) -> None:
        await self.stream.checkpoint()

    async def tidy(self, _: None) -> None:
        await self.stream.folder.tidy()

    async def reopen(self, _: None) -> None:
        await self.stream.close()
        self.stream = await self.workshop.open(self.model.config)
        self.model.enforce()

    async def load(self, argument: tuple[int, list[tuple[bytes, bytes, bytes]], int]) -> None:
        gap, loaded, skipped = argument
        seq = self.model.last_seq + 1 + gap
        now = max(self.workshop.clock.now_ns(), self.model.last_ts + 1)
        messages = [Message(seq + 2 * n, now + n, s, h, d) for n, (s, h, d) in enumerate(loaded)]
        last_seq = (messages[-1].seq if messages else self.model.last_seq) + skipped
        await self.stream.publishing.load(columns_of(messages) if messages else _none(), last_seq=last_seq)
        for message in messages:
            self.model.store(message)
        if messages:
            self.model.enforce()
        self.model.skip_to(last_seq)

    # What must agree after every step.

    async def agree(self) -> None:
        stream, model = self.stream, self.model
        state = await stream.reading.state()
        assert (state.messages, state.bytes) == (len(model.messages), model.size)
        assert (state.first_seq, state.last_seq) == (model.first_seq, model.last_seq)
        assert state.first_ts == (model.messages[model.first_seq].ts if model.messages else 0)
        assert (state.last_ts, state.lost) == (model.last_ts, None)
        assert (state.num_deleted, stream.reading.deleted()) == (len(model.deleted), model.deleted)
        assert stream.reading.subject_counts(">") == model.counts()
        assert await everything(stream) == model.matching(())
        for seq in (model.first_seq, model.last_seq, model.last_seq // 2):
            assert await stream.reading.message(seq) == model.messages.get(seq)
        for pattern in PATTERNS:
            await self.agree_on(pattern, (pattern,) if pattern else ())
        self.agree_on_replay()

    async def agree_on(self, pattern: str, patterns: tuple[str, ...]) -> None:
        stream, model = self.stream, self.model
        middle = (model.first_seq + model.last_seq) // 2
        matching = model.matching(patterns)
        assert await stream.reading.last(pattern) == (matching[-1] if matching else None)
        later = model.matching(patterns, middle)
        assert await stream.reading.next(pattern, middle) == (later[0] if later else None)
        assert await stream.reading.pending(middle, patterns) == len(later)
        assert await everything(stream, middle, patterns) == later
        earlier = model.matching(patterns, 0, middle)
        assert await stream.reading.last(pattern, middle) == (earlier[-1] if earlier else None)
        for up_to in (None, middle):
            wanted = model.last_seqs(patterns, model.last_seq if up_to is None else up_to)
            assert await stream.reading.last_seqs(patterns or (">",), up_to, 100) == wanted
        ts = (matching[len(matching) // 2].ts if matching else 0) + len(pattern) - 1
        assert await stream.reading.seq_at(ts) == model.seq_at(ts)

    def agree_on_replay(self) -> None:
        """The ledger that a crash right now would leave is the one that lives."""
        store = self.stream._store
        self.copies += 1
        copy = self.workshop.directory / f"copy{self.copies}"
        shutil.copytree(store.directory, copy)
        replayed = Store(copy, store.config, store.services)
        try:
            # One of the two may have looked up what the other has not.
            unsure = replayed.ledger.subjects.stale | store.ledger.subjects.stale
            assert dumped(replayed.ledger, unsure, self.workshop) == dumped(
                store.ledger, unsure, self.workshop
            )
        finally:
            replayed.close()
            shutil.rmtree(copy)


def dumped(ledger: Ledger, unsure: set[bytes], workshop: Workshop) -> dict[str, Any]:
    """Return what a ledger holds, but for what it may look up or forget when it likes."""
    ledger.dedupe.expire(workshop.clock.now_ns())
    dump = ledger.dump()
    del dump["first_ts"]
    for name in ("deleted", "lost"):
        dump[name] = list(BitMap64.deserialize(dump[name]))
    dump["expiry"] = sorted((when, seq) for when, seq in dump["expiry"]["heap"] if ledger.is_live(seq))
    dump["never"] = list(ledger.expiry.never)
    del dump["subjects"]["stale"]
    dump["subjects"]["last"] = {s: n for s, n in dump["subjects"]["last"].items() if s not in unsure}
    return dump


def _none() -> Columns:
    lengths, numbers = np.empty(0, np.uint32), np.empty(0, np.int64)
    return Columns(numbers, numbers, lengths, b"", lengths, b"", lengths, b"")


@pytest.mark.parametrize("limits", LIMITS)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@given(steps=st.lists(operations, min_size=4, max_size=14))
def test_a_stream_holds_what_the_model_holds(limits: str, steps: list[tuple[str, Any]]) -> None:
    config = config_of(
        allow_msg_ttl=True, allow_rollup_hdrs=True, **{"duplicate_window": 2 * SECOND, **LIMITS[limits]}
    )
    with tempfile.TemporaryDirectory(dir=_fast()) as directory:
        workshop = Workshop(Path(directory))
        try:
            asyncio.run(Comparison(workshop, config).run(steps))
        finally:
            workshop.close()


def _fast() -> Path | None:
    shm = Path("/dev/shm")
    return shm if shm.is_dir() else None
