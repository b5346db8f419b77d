"""The lag of an upstream with filters on a remote origin counts only matching messages."""

from __future__ import annotations

import pytest

from doors import Asker, opened_jetstream
from headwater.clock import SystemClock
from headwater.model.upstream import External, StreamSource, TransformConfig
from headwater.upstreams.filtered_lag import FilteredLag
from headwater.upstreams.origins import Origins
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.upstream import Upstream


class Ticking(SystemClock):
    """A clock on which a second passes with each look."""

    def __init__(self, step_ns: int) -> None:
        self._now, self._step = 0, step_ns

    def now_ns(self) -> int:
        self._now += self._step
        return self._now


def upstream_of(*filters: str) -> Upstream:
    external = External(api="$JS.API")
    if len(filters) > 1:
        transforms = tuple(TransformConfig(src=pattern) for pattern in filters)
        source = StreamSource(name="O", external=external, subject_transforms=transforms)
    else:
        source = StreamSource(name="O", external=external, filter_subject="".join(filters))
    return Upstream(None, source, mirrored=False)  # type: ignore[arg-type]


async def extent(asker: Asker) -> OriginRange:
    source = StreamSource(name="O", external=External(api="$JS.API"))
    return await Origins(None, asker.connection).extent(source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("filters", "start", "lag"),
    [((), 1, 9), (("o.a",), 1, 3), (("o.a",), 4, 2), (("o.a", "o.b"), 1, 6), (("x",), 1, 0), ((">",), 8, 2)],
)
async def test_it_is_what_the_filters_take_and_nothing_is_left_behind(
    filters: tuple[str, ...], start: int, lag: int
) -> None:
    async with opened_jetstream() as asker:
        await asker.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
        for number in range(9):
            await asker.publish(f"o.{'abc'[number % 3]}")
        measured = FilteredLag(asker.connection, SystemClock())
        upstream = upstream_of(*filters)
        assert await measured.of(upstream, await extent(asker), start, "$JS.API") == lag
        await asker.connection.flush()
        info = await asker.ask("STREAM.INFO.O")
        assert info["state"]["consumer_count"] == 0


async def test_between_measurements_what_is_new_counts_whole() -> None:
    async with opened_jetstream() as asker:
        await asker.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
        await asker.publish("o.a")
        upstream = upstream_of("o.a")
        seldom, often = (
            FilteredLag(asker.connection, Ticking(1)),
            FilteredLag(asker.connection, Ticking(10**12)),
        )
        for measured in (seldom, often):
            assert await measured.of(upstream, await extent(asker), 1, "$JS.API") == 1
        await asker.publish("o.b")
        assert await seldom.of(upstream, await extent(asker), 1, "$JS.API") == 2
        assert await often.of(upstream, await extent(asker), 1, "$JS.API") == 1


async def test_an_origin_that_does_not_answer_is_behind_by_all_it_had() -> None:
    async with opened_jetstream() as asker:
        measured = FilteredLag(asker.connection, SystemClock())
        assert await measured.of(upstream_of("o.a"), OriginRange("x", 1, 5), 2, "$JS.away.API") == 4
