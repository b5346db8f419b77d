"""Tests of monitor.stream_numbers."""

from __future__ import annotations

from pathlib import Path

from headwater.monitor.exposition import Exposition, labels
from headwater.monitor.stream_numbers import FAMILIES, stream_numbers, write_streams
from monitor.families import parsed
from stream.streams import Workshop, config_of, publish


async def test_a_row_shows_what_the_stream_holds_and_may_hold(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream(config_of(max_msgs=5, subjects=("s.>",))) as stream:
        await publish(stream, (b"s.a", b"1"), (b"s.b", b"2"), (b"s.a", b"3"))
        await stream.retention.remove(2)
        row = stream_numbers(stream, consumers=4)
        exposition = Exposition()
        write_streams(exposition, [(labels(stream_name="S"), row)])
        found = parsed(exposition.text())
        assert set(found) == {family.name for family in FAMILIES}
        values = {name: samples[0][1] for name, samples in found.items()}
        assert all(samples[0][0] == {"stream_name": "S"} for samples in found.values())
        assert values["jetstream_stream_total_messages"] == 2
        assert values["jetstream_stream_total_bytes"] == (await stream.reading.state()).bytes
        assert (values["jetstream_stream_first_seq"], values["jetstream_stream_last_seq"]) == (1, 3)
        assert values["jetstream_stream_consumer_count"] == 4
        assert values["jetstream_stream_subject_count"] == 1
        assert values["jetstream_stream_limit_messages"] == 5
        assert values["jetstream_stream_limit_bytes"] == -1
        assert values["headwater_stream_deleted_messages"] == 1
        assert values["headwater_stream_unfolded_messages"] == 3
        assert values["headwater_stream_failing"] == 0
