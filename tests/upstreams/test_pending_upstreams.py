"""An upstream rests when it has copied everything, and not a moment longer than its origin does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from doors import services
from headwater.model.stream import StreamConfig
from headwater.model.upstream import External, StreamSource
from headwater.stream.stream import Stream
from headwater.upstreams.pending_upstreams import LOOK_NS, SLOWEST, PendingUpstreams, next_look_ns
from headwater.upstreams.upstream import Upstream


class Nobody:
    """A listener that nothing matters to."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: {} if name == "dump" else None


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[tuple[Stream, Stream]]:
    async with services(tmp_path) as shared:
        opened = [
            await Stream.open(tmp_path / name, StreamConfig(name=name), created_ns=1, services=shared)
            for name in ("O", "T")
        ]
        for stream in opened:
            stream.events.listen(Nobody())  # type: ignore[arg-type]
        yield opened[0], opened[1]
        for stream in opened:
            await stream.close()


def source_of(target: Stream, external: External | None = None) -> Upstream:
    return Upstream(target, StreamSource(name="O", external=external), mirrored=False)


def rest(pending: PendingUpstreams, upstream: Upstream) -> None:
    pending.clear(upstream, pending.mark_of(upstream))


async def test_it_rests_until_its_origin_grows(streams: tuple[Stream, Stream]) -> None:
    origin, target = streams
    pending, upstream = PendingUpstreams(), source_of(target)
    pending.opened(origin)
    pending.opened(target)
    pending.declare("T", [upstream])
    assert list(pending) == [upstream]
    rest(pending, upstream)
    assert list(pending) == []
    pending.grown.clear()
    origin.publishing.offer([(b"o", b"", b"", b"1")])
    await origin.publishing.settled()
    assert list(pending) == [upstream]
    assert pending.grown.is_set()


async def test_an_origin_that_grows_while_it_is_checked_is_not_forgotten(
    streams: tuple[Stream, Stream],
) -> None:
    origin, target = streams
    pending, upstream = PendingUpstreams(), source_of(target)
    pending.opened(origin)
    pending.declare("T", [upstream])
    before = pending.mark_of(upstream)
    origin.publishing.offer([(b"o", b"", b"", b"1")])
    await origin.publishing.settled()
    pending.clear(upstream, before)
    assert upstream in pending


async def test_an_origin_that_comes_or_goes_marks_the_upstreams_that_copy_from_it(
    streams: tuple[Stream, Stream],
) -> None:
    origin, target = streams
    pending, upstream = PendingUpstreams(), source_of(target)
    pending.declare("T", [upstream])
    rest(pending, upstream)
    pending.opened(origin)
    assert upstream in pending
    rest(pending, upstream)
    pending.closed(origin)
    assert upstream in pending
    assert not origin.events.message_callbacks


async def test_upstreams_of_a_target_that_has_others_now_are_forgotten(
    streams: tuple[Stream, Stream],
) -> None:
    origin, target = streams
    pending, old, new = PendingUpstreams(), source_of(target), source_of(target)
    pending.opened(origin)
    pending.declare("T", [old])
    pending.declare("T", [new])
    assert list(pending) == [new]
    pending.declare("T", [])
    origin.publishing.offer([(b"o", b"", b"", b"1")])
    await origin.publishing.settled()
    assert list(pending) == []


async def test_an_upstream_of_a_remote_origin_stays_pending_and_is_queried_less_and_less_often(
    streams: tuple[Stream, Stream],
) -> None:
    pending, upstream = PendingUpstreams(), source_of(streams[1], External(api="$JS.hub.API"))
    pending.declare("T", [upstream])
    rest(pending, upstream)
    assert list(pending) == [upstream]
    pauses = [next_look_ns(looks) for looks in range(1000)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (LOOK_NS, SLOWEST * LOOK_NS)


async def test_an_upstream_that_is_declared_is_new_and_an_origin_that_grows_makes_none_so(
    streams: tuple[Stream, Stream],
) -> None:
    origin, target = streams
    pending = PendingUpstreams()
    pending.opened(origin)
    assert not pending.is_new
    pending.declare("T", ())
    assert not pending.is_new
    pending.declare("T", [source_of(target)])
    assert pending.is_new
    pending.is_new = False
    for watcher in origin.events.message_callbacks:
        watcher()
    assert pending.grown.is_set()
    assert not pending.is_new
