"""The extent of an origin, and where to begin in it, for local and remote origins."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.copiers import create, held, publish
from doors import opened_door
from headwater.errors import ApiError
from headwater.model.upstream import External, StreamSource
from headwater.upstreams.origins import Origins

HERE = StreamSource(name="O")
REMOTE = StreamSource(name="O", external=External(api="$JS.API"))


@pytest.mark.parametrize("source", [HERE, REMOTE])
async def test_an_origin_reports_its_first_and_last_sequence(tmp_path: Path, source: StreamSource) -> None:
    async with opened_door(tmp_path) as door:
        await create(door, name="O", subjects=["o"], max_msgs=3)
        await publish(door, "o", 5)
        extent = await Origins(door.domain, door.connection).extent(source)
        assert (extent.first_seq, extent.last_seq) == (3, 5)
        assert extent.identity


@pytest.mark.parametrize("source", [HERE, REMOTE])
async def test_a_start_time_is_found_as_a_sequence(tmp_path: Path, source: StreamSource) -> None:
    async with opened_door(tmp_path) as door:
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        origins = Origins(door.domain, door.connection)
        extent = await origins.extent(source)
        fourth = (await held(door, "O"))[3]
        for at_ns, seq in ((fourth.ts, 4), (1, 1), (fourth.ts + 10**12, 6)):
            dated = StreamSource(name="O", external=source.external, opt_start_time=at_ns)
            assert await origins.seq_at(dated, extent) == seq


async def test_an_unanswered_origin_is_an_error_that_names_the_subject(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        origins = Origins(door.domain, door.connection)
        with pytest.raises(ApiError, match=r"\$JS\.away\.API\.STREAM\.INFO\.O"):
            await origins.extent(StreamSource(name="O", external=External(api="$JS.away.API")))


async def test_an_error_of_the_origin_is_raised_as_it_is(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        with pytest.raises(ApiError) as raised:
            await Origins(door.domain, door.connection).extent(REMOTE)
        assert raised.value.err_code == 10059
