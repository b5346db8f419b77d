"""An upstream knows what it wants, how far it is, and how long to wait after trouble."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from doors import services
from headwater.errors import api_error
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource, TransformConfig
from headwater.stream.stream import Stream
from headwater.upstreams.upstream import Upstream, upstreams_of

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
    upstream.origin_answered(60)
    assert upstream.info(100).active_ns == 40


async def test_what_comes_after_an_idle_spell_is_no_stall(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    upstream.moved(1 * SECOND)
    idle_ns = 1000 * SECOND
    upstream.measured(5, 0, idle_ns)
    upstream.stalled("is a replicator running?", idle_ns)
    assert upstream.error is None
    upstream.measured(5, 0, idle_ns + 19 * SECOND)
    upstream.stalled("is a replicator running?", idle_ns + 19 * SECOND)
    assert upstream.error is None
    upstream.stalled("is a replicator running?", idle_ns + 21 * SECOND)
    assert upstream.error is not None
    assert "nothing was copied for 21 s" in upstream.error.description


async def test_a_copy_that_moves_but_never_ends_is_no_stall(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    for second in range(0, 100, 10):
        upstream.measured(5, 0, second * SECOND)
        upstream.moved(second * SECOND)
        upstream.stalled("why", (second + 9) * SECOND)
        assert upstream.error is None


async def test_a_known_problem_shows_at_once(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    upstream.cannot_move("no Java was found", 1)
    assert upstream.error is None, "nothing is to be copied"
    upstream.measured(5, 0, 1)
    upstream.cannot_move("no Java was found", 1)
    assert upstream.error is not None
    assert upstream.error.description.endswith("nothing is copied: no Java was found")


async def test_messages_that_the_lag_was_counted_without_do_not_lower_it(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    upstream.measured(10, 0, 1)
    upstream.took(4, 4)
    assert upstream.lag == 6
    upstream.measured(6, 4, 1)
    upstream.took(4, 4)
    assert upstream.lag == 6


async def test_of_an_origin_that_is_away_nothing_is_known(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    assert upstream.progress(1).done is None
    upstream.origin_answered(1)
    assert (upstream.progress(1).done, upstream.progress(1).behind_s) == (1.0, 0.0)
    upstream.origin_failed()
    away = upstream.progress(1)
    assert (away.done, away.behind_s, away.caught_up_in_s) == (None, None, None)


async def test_a_requested_origin_is_checked_soon(stream: Stream) -> None:
    upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
    upstream.looked_ns, upstream.next_try_ns = 10, 100
    upstream.look_soon(20)
    assert upstream.next_try_ns == 30
    upstream.failed(api_error("stream_not_found"), 0)
    due_ns = upstream.next_try_ns
    upstream.look_soon(1)
    assert upstream.next_try_ns == due_ns, "a failed attempt is retried in its own time"


def test_a_clock_that_was_set_back_does_not_delay_the_next_attempt() -> None:
    upstream = Upstream(cast(Stream, None), StreamSource(name="O"), mirrored=False)
    hour = 3_600_000_000_000
    upstream.next_try_ns = 10 * hour + 5_000_000_000
    assert not upstream.is_due(10 * hour)
    assert upstream.is_due(10 * hour + 5_000_000_000)
    assert upstream.is_due(9 * hour)
