"""An upstream knows what it wants, how far it is, and how long to wait after trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors import services
from headwater.errors import api_error
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource, TransformConfig
from headwater.replication.upstream import Upstream, upstreams_of
from headwater.stream.stream import Stream

SECOND = 1_000_000_000


@pytest.fixture
async def stream(tmp_path: Path):  # type: ignore[no-untyped-def]
    async with services(tmp_path) as shared:
        stream = await Stream.open(tmp_path / "T", StreamConfig(name="T"), created_ns=1, services=shared)
        yield stream
        await stream.close()


async def test_a_config_declares_a_mirror_or_sources(stream: Stream) -> None:
    mirror = upstreams_of(stream, StreamConfig(name="T", mirror=StreamSource(name="O")))
    assert [(u.source.name, u.mirrored) for u in mirror] == [("O", True)]
    sources = (StreamSource(name="A"), StreamSource(name="B", filter_subject="b"))
    declared = upstreams_of(stream, StreamConfig(name="T", sources=sources))
    assert [(u.id, u.mirrored) for u in declared] == [("A > >", False), ("B b >", False)]
    assert upstreams_of(stream, StreamConfig(name="T")) == []


async def test_transforms_filter_as_well(stream: Stream) -> None:
    transforms = (TransformConfig("a.*", "x.$1"), TransformConfig("b", ""))
    upstream = Upstream(stream, StreamSource(name="O", subject_transforms=transforms), mirrored=False)
    assert upstream.filters == ("a.*", "b")
    assert upstream.transforms == (("a.*", "x.$1"), ("b", ""))
    assert upstream.source_header("id") == ("O", "a.*\fb", "x.$1\f>", "id")


async def test_a_mirror_adds_no_header(stream: Stream) -> None:
    assert Upstream(stream, StreamSource(name="O"), mirrored=True).source_header("id") is None


async def test_attempts_after_failures_come_later_but_never_much_later(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    waits = []
    for _ in range(10):
        upstream.failed(api_error("stream_not_found"), 0)
        waits.append(upstream.next_try_ns)
    assert waits == sorted(waits)
    assert waits[-1] <= 10 * SECOND
    upstream.moved(5)
    assert upstream.error is None
    assert upstream.failures == 0


async def test_one_never_heard_of_is_shown_so(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    assert upstream.info(100).active_ns == -1
    upstream.heard_of(60)
    assert upstream.info(100).active_ns == 40
