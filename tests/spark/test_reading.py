"""A read is planned from the engine's answer and the table's files, or refused with a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.disk import RealDisk
from headwater.errors import BusError, SettingsError
from headwater.model.times import format_time
from headwater.spark.range_reader import read_batches
from headwater.spark.reading import OPTIONS, Reading
from headwater.table import Table
from replication.origins import KINDS, site_of
from table.links import link_of
from table.samples import columns

ROOT = Path(__file__).parent.parent.parent
ROUNDS = 1200


def seqs_of(reading: Reading) -> list[int]:
    """Return the sequences of all that is read."""
    ranges = reading.ranges()
    batches = [
        batch for part in ranges for batch in read_batches(part, reading.origin, ["seq"], reading.selection)
    ]
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_without_a_path_is_read_through_its_api(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await site.make(allow_direct=True)
        for _ in range(7):
            await site.publish("orders.new", b"x")
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":4}')
        reading = Reading({"server": site.url, "stream": "ORDERS", "messagesPerPartition": "3"})
        ranges = await asyncio.to_thread(reading.ranges)
        assert [(part.first_seq, part.last_seq) for part in ranges] == [(1, 3), (4, 6), (7, 7)]
        assert await asyncio.to_thread(seqs_of, reading) == [1, 2, 3, 5, 6, 7]
        assert (await asyncio.to_thread(reading.extent)).last_seq == 7
        part = Reading({"server": site.url, "stream": "ORDERS", "startSequence": "3", "endSequence": "5"})
        assert await asyncio.to_thread(seqs_of, part) == [3, 5]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_api_is_asked_for_selected_subjects_and_times_alone(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await site.make(allow_direct=True)
        for number in range(12):
            await site.publish(f"orders.{'eu' if number % 3 else 'us'}.{number}", b"x")
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":6}')
        stored = {message.seq: format_time(message.ts) for message in await site.remember()}
        both = {"server": site.url, "stream": "ORDERS", "messagesPerPartition": "4"}

        async def read(**options: str) -> list[int]:
            return await asyncio.to_thread(seqs_of, Reading({**both, **options}))

        assert await read(subject="orders.us.>") == [1, 4, 7, 10]
        assert await read(subject="orders.us.*, orders.*.1") == [1, 2, 4, 7, 10]
        assert await read(subject="orders.us.*, *.*.1") == [1, 2, 4, 7, 10]
        assert await read(startTime=stored[5], endTime=stored[9]) == [5, 7, 8]
        assert await read(startTime=stored[5], subject="orders.us.>") == [7, 10]
        timed = Reading({**both, "startTime": stored[5], "endTime": stored[9]})
        ranges = await asyncio.to_thread(timed.ranges)
        assert [(part.first_seq, part.last_seq) for part in ranges] == [(5, 8)]
        assert await read(startTime="2100-01-01T00:00:00Z") == []


async def test_files_and_what_is_not_folded_yet_are_one_run(tmp_path: Path) -> None:
    async with site_of("headwater", tmp_path) as site:
        await site.make()
        for _ in range(5):
            await site.publish("orders.new", b"x")
        folder = tmp_path / "engine" / "store" / "$G" / "ORDERS"
        files_alone = Reading({"path": str(folder)})
        for _ in range(ROUNDS):
            if await asyncio.to_thread(seqs_of, files_alone) == [1, 2, 3, 4, 5]:
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("the messages are never folded into the table")
        await site.publish("orders.new", b"y")
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":2}')
        whole = Reading({"path": str(folder / "table"), "server": site.url})
        assert await asyncio.to_thread(seqs_of, whole) == [1, 3, 4, 5, 6]


async def test_a_stream_with_too_many_removals_to_name_is_read_through_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.spark.reading.NAMED_REMOVALS", 1)
    async with site_of("headwater", tmp_path) as site:
        await site.make(allow_direct=True)
        for _ in range(6):
            await site.publish("orders.new", b"x")
        for seq in (2, 4):
            await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":%d}' % seq)
        reading = Reading({"path": str(tmp_path / "engine" / "store" / "$G" / "ORDERS"), "server": site.url})
        ranges = await asyncio.to_thread(reading.ranges)
        assert [part.file for part in ranges] == [None]
        assert await asyncio.to_thread(seqs_of, reading) == [1, 3, 5, 6]


async def test_a_stream_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with site_of("nats-server", tmp_path) as site:
        missing = Reading({"server": site.url, "stream": "NOPE"})
        with pytest.raises(BusError, match="'NOPE': stream not found"):
            await asyncio.to_thread(missing.ranges)
    with pytest.raises(SettingsError, match="there is no stream in"):
        Reading({"path": str(tmp_path / "nowhere")}).ranges()


def test_files_of_a_source_s_origin_are_read_with_what_their_stream_adds(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    table.commit([table.write(columns(range(1, 4)))])
    placed = link_of(tmp_path / "staging", range(500, 520)).behind(3, 0, 1_800_000_000_000_000_000)
    table.adopt(tmp_path / "staging", [placed], {})
    ranges = Reading({"path": str(tmp_path)}).ranges()
    sources = [part.file.copied and part.file.copied.source for part in ranges if part.file]
    assert sources == [None, "ORDERS"]
    batches = [batch for part in ranges for batch in read_batches(part, None, ["seq", "headers"])]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["seq"] for row in rows] == list(range(1, 24))
    assert dict(rows[-1]["headers"])["Nats-Stream-Source"] == ["ORDERS 519 > > orders.1 Ab1"]


def test_a_folder_of_an_account_is_no_stream(tmp_path: Path) -> None:
    (tmp_path / "ORDERS" / "table").mkdir(parents=True)
    with pytest.raises(SettingsError, match="contains several streams: pass the folder of one"):
        Reading({"path": str(tmp_path)}).ranges()


def test_an_empty_folder_of_a_stream_holds_nothing(tmp_path: Path) -> None:
    assert Reading({"path": str(tmp_path)}).ranges() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "missing stream"),
        ({"stream": "S", "startsequence": "0"}, "startSequence must be a number of at least 1, not '0'"),
        ({"stream": "S", "endSequence": "x"}, "option endSequence must be a number of at least 1, not 'x'"),
        ({"stream": "S", "maxMessages": "5"}, "unknown option 'maxmessages'; there are path, stream,"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    from pyspark.sql.datasource import CaseInsensitiveDict

    with pytest.raises(SettingsError, match=words):
        Reading(CaseInsensitiveDict(options))


def test_domain_and_prefix_say_which_api_is_asked() -> None:
    def prefix(**options: str) -> str:
        origin = Reading({"stream": "S", **options}).origin
        assert origin is not None
        return origin.api_prefix

    assert (prefix(), prefix(domain="hub")) == ("$JS.API", "$JS.hub.API")
    assert prefix(apiPrefix="imported.API") == "imported.API"


def test_every_option_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "spark.md").read_text()
    assert [name for name in OPTIONS if f"| `{name}` |" not in page] == []
