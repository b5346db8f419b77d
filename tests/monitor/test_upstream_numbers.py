"""Tests of monitor.upstream_numbers."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import api_error
from headwater.model.progress import Phase
from headwater.model.upstream import StreamSource
from headwater.monitor.exposition import Exposition, labels
from headwater.monitor.upstream_numbers import upstream_numbers, write_upstreams
from headwater.upstreams.upstream import Upstream
from monitor.families import Samples, parsed
from stream.streams import SECOND, Workshop


def shown(upstream: Upstream, now_ns: int) -> Samples:
    exposition = Exposition()
    write_upstreams(exposition, [upstream_numbers(upstream, labels(stream_name="T"), now_ns)])
    return parsed(exposition.text())


async def test_an_unknown_lag_is_absent_and_a_known_one_is_shown_twice(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        upstream = Upstream(stream, StreamSource(name="O"), mirrored=True)
        before = shown(upstream, SECOND)
        assert "headwater_upstream_lag" not in before
        assert "jetstream_stream_mirror_lag" not in before
        assert before["headwater_upstream_reachable"][0][1] == 0
        upstream.origin_answered(SECOND)
        upstream.measured(7, 3, SECOND)
        after = shown(upstream, 3 * SECOND)
        assert after["headwater_upstream_lag"] == [
            ({"stream_name": "T", "kind": "mirror", "origin": "O"}, 7.0)
        ]
        assert after["jetstream_stream_mirror_lag"] == [({"stream_name": "T", "mirror_name": "O"}, 7.0)]
        assert after["headwater_upstream_last_seen_seconds"][0][1] == 2.0
        assert "jetstream_stream_source_lag" not in after


async def test_an_error_and_its_phase_are_shown(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        upstream = Upstream(stream, StreamSource(name="O"), mirrored=False)
        upstream.failed(api_error("stream_not_found"), SECOND)
        found = shown(upstream, SECOND)
        assert found["headwater_upstream_failing"][0][1] == 1
        assert found["headwater_upstream_failures"][0][1] == 1
        phases = {labels["phase"]: value for labels, value in found["headwater_upstream_phase"]}
        assert phases == {str(phase): float(phase is Phase.RETRYING) for phase in Phase}
