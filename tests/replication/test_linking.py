"""A source has whole files of its origin as they are, and the same messages where it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from doors import services
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.stream import Compression, StreamConfig
from headwater.model.upstream import StreamSource, TransformConfig
from headwater.replication.work import FileRange, Receipt, Work
from headwater.replication.worker.result import Result
from headwater.replication.worker.transfer import transfer
from headwater.spark.columns import COLUMNS
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.stream.stream import Stream
from headwater.table import parquet, schema
from headwater.table.datafile import DataFile
from headwater.table.file_sums import FileSums
from headwater.table.stored_group import StoredFile
from headwater.upstreams.planner import SUMMED_SUBJECTS, CursorAt, OriginRange, plan_local
from headwater.upstreams.upstream import Upstream
from replication.works import adopted_by, brought, expected_of, file_of, removed_of, work_of
from table.links import link_of, sourced
from table.samples import message

COUNT = 2000
MESSAGES = [message(seq)._replace(data=b"%09d" % seq * 30) for seq in range(1, COUNT + 1)]
SOURCE = ("O", ">", ">", "Id1")
NOW = 1_800_000_000_000_000_000


def link_work(tmp_path: Path, *files: FileRange, removed: Iterable[int] = (), **fields: Any) -> Work:
    """Return a source's work on files of which its target can have each."""
    usual: dict[str, Any] = {
        "stop_seq": files[-1].last_seq,
        "source_header": SOURCE,
        "linkable": True,
        "traceable": True,
        "adoptive": True,
    }
    return work_of(
        **usual
        | {
            "files": files,
            "removed": removed_of(removed) if removed else b"",
            "staging": str(tmp_path / "staging"),
        }
        | fields
    )


def links_of(receipt: Receipt, tmp_path: Path, *files: FileRange) -> list[bool]:
    """Return of each file that a receipt names whether it is one of these."""
    assert receipt.error == ""
    inodes = {Path(file.path).stat().st_ino for file in files}
    return [(tmp_path / "staging" / file.name).stat().st_ino in inodes for file in receipt.adopted]


def but_times_and_places(messages: Iterable[Message]) -> list[Message]:
    return [m._replace(seq=0, ts=0) for m in messages]


@pytest.mark.parametrize("base_seq", [0, 1, -500])
def test_a_source_has_whole_files_as_they_are(tmp_path: Path, base_seq: int) -> None:
    origin = file_of(tmp_path, MESSAGES[:1500], base_seq)
    work = link_work(tmp_path, origin)
    receipt = transfer(work)
    assert links_of(receipt, tmp_path, origin) == [True]
    found = adopted_by(receipt, tmp_path / "staging")
    assert [m._replace(ts=0) for m in found] == [m._replace(ts=0) for m in expected_of(work, MESSAGES)]
    (file,) = receipt.adopted
    assert file.copied is not None
    assert (file.copied.source, file.copied.source_id, file.copied.source_base) == ("O", "Id1", base_seq)
    assert file.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in found)
    assert (file.with_headers, file.rows, receipt.rows) == (1500, 1500, 1500)
    assert receipt.through == 1500


def without(seq: int) -> list[Message]:
    return [m for m in MESSAGES if m.seq != seq]


def with_headers(block: bytes) -> list[Message]:
    return [m._replace(headers=block) if m.seq == 700 else m for m in MESSAGES]


class Case(NamedTuple):
    """Why a file is not linked."""

    name: str
    fields: dict[str, Any] = {}  # noqa: RUF012
    messages: list[Message] = MESSAGES


HINDRANCES = [
    Case("a demand", messages=with_headers(b"NATS/1.0\r\nA: 1\r\nNats-Expected-Stream: O\r\n\r\n")),
    Case("an unfinished block", messages=with_headers(b"NATS/1.0\r\nUnfinished: x\r\n")),
    Case("an origin's origin", messages=with_headers(b"NATS/1.0\r\nNats-Stream-Source: X 1 > > a\r\n\r\n")),
    Case("a removed message", {"removed": [700]}),
    Case("a gap", {"removed": [700]}, without(700)),
    Case("a start within", {"start_seq": 2}),
    Case("an end within", {"stop_seq": COUNT - 1}),
    Case("another compression", {"linkable": False, "compression": "s2"}),
    Case("a filter", {"filters": ("orders.*",)}),
    Case("a transform", {"transforms": (("orders.*", "in.$1"),)}),
    Case("a target's transform", {"stream_transform": ("orders.*", "in.$1")}),
    Case("an odd name", {"source_header": ("Ö:hash", ">", ">", "Id1")}),
    Case("no identity", {"source_header": ("O", ">", ">", "")}),
    Case("a header with a filter", {"source_header": ("O", "orders.*", ">", "Id1")}),
    Case("a target that looks at messages", {"adoptive": False}),
    Case("a table of before", {"traceable": False}),
    Case("a small file", messages=MESSAGES[:200]),
]


@pytest.mark.parametrize("case", HINDRANCES, ids=lambda case: case.name)
def test_what_cannot_be_linked_is_copied_with_the_same_messages(tmp_path: Path, case: Case) -> None:
    file = file_of(tmp_path, case.messages)
    work = link_work(tmp_path, file, **case.fields)
    receipt = transfer(work)
    assert not any(links_of(receipt, tmp_path, file))
    found = (
        adopted_by(receipt, tmp_path / "staging")
        if receipt.adopted
        else brought(receipt, tmp_path / "staging")
    )
    gone = case.fields.get("removed", ())
    wanted = expected_of(work, [m for m in case.messages if m.seq not in gone])
    if case.name == "an unfinished block":
        wanted = [
            w._replace(headers=f.headers) if w.seq == 700 else w for w, f in zip(wanted, found, strict=True)
        ]
        assert header_block.get(wanted[699].headers, b"Nats-Stream-Source") == b"O 700 > > orders.0 Id1"
    assert but_times_and_places(found) == but_times_and_places(wanted)
    assert not any(each.copied for each in receipt.adopted)


def test_headers_that_are_tidy_stay_before_the_new_one(tmp_path: Path) -> None:
    messages = with_headers(b"NATS/1.0\r\nNats-Msg-Id: 7\r\nB: 2\r\n\r\n")
    file = file_of(tmp_path, messages)
    receipt = transfer(link_work(tmp_path, file))
    assert links_of(receipt, tmp_path, file) == [True]
    assert adopted_by(receipt, tmp_path / "staging")[699].headers == (
        b"NATS/1.0\r\nNats-Msg-Id: 7\r\nB: 2\r\nNats-Stream-Source: O 700 > > orders.0 Id1\r\n\r\n"
    )


def test_linked_and_written_files_stand_in_the_order_of_their_messages(tmp_path: Path) -> None:
    parts = [MESSAGES[:990], MESSAGES[990:1000], MESSAGES[1000:1010], MESSAGES[1010:]]
    files = [file_of(tmp_path, part, part[0].seq) for part in parts]
    work = link_work(tmp_path, *files)
    receipt = transfer(work)
    assert links_of(receipt, tmp_path, *files) == [True, False, True]
    found = adopted_by(receipt, tmp_path / "staging")
    assert but_times_and_places(found) == but_times_and_places(expected_of(work, MESSAGES))
    assert [file.rows for file in receipt.adopted] == [990, 20, 990]
    assert receipt.linked_bytes == sum(Path(files[at].path).stat().st_size for at in (0, 3))


def test_a_link_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (file_of(tmp_path, MESSAGES[:1000]), file_of(tmp_path, MESSAGES[1000:]))
    link = Result.link

    def link_and_remove_the_next(result: Result, file: FileRange, sums: FileSums, size: int) -> None:
        link(result, file, sums, size)
        Path(files[1].path).unlink()

    monkeypatch.setattr(Result, "link", link_and_remove_the_next)
    receipt = transfer(link_work(tmp_path, *files))
    assert "was replaced" in receipt.error
    assert list((tmp_path / "staging").iterdir()) == []


def linked_range(tmp_path: Path) -> tuple[FileRange, list[Message]]:
    """Return a file that the origin has linked itself, behind 100 messages of its own, and what it holds."""
    placed = link_of(tmp_path / "origin", range(1, 12_001)).behind(100, 0, NOW)
    path = tmp_path / "origin" / placed.name
    file = FileRange(str(path), placed.base_seq, placed.first_seq, placed.last_seq, placed.copied)
    return file, [sourced(message(seq), seq + 100, NOW) for seq in range(1, 12_001)]


def test_a_linked_file_is_linked_on_by_a_source(tmp_path: Path) -> None:
    file, messages = linked_range(tmp_path)
    work = link_work(tmp_path, file)
    receipt = transfer(work)
    assert links_of(receipt, tmp_path, file) == [True]
    found = adopted_by(receipt, tmp_path / "staging")
    # The header names this origin, with the sequence there, and no other.
    assert [m._replace(ts=0) for m in found] == [m._replace(ts=0) for m in expected_of(work, messages)]
    assert found[0].headers.count(b"Nats-Stream-Source") == 1
    (adopted,) = receipt.adopted
    assert adopted.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in found)


@pytest.mark.parametrize("traceable", [True, False])
def test_a_linked_file_is_the_same_in_a_mirror(tmp_path: Path, traceable: bool) -> None:
    file, messages = linked_range(tmp_path)
    work = link_work(tmp_path, file, mirrored=True, source_header=None, traceable=traceable)
    receipt = transfer(work)
    assert links_of(receipt, tmp_path, file) == [traceable]
    assert adopted_by(receipt, tmp_path / "staging") == messages
    (adopted,) = receipt.adopted
    assert adopted.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in messages)
    assert (adopted.with_headers, adopted.first_ts, adopted.last_ts) == (12_000, NOW, NOW)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize(
    "fields",
    [{"filters": ("orders.3",)}, {"removed": [5_000]}, {"start_seq": 4_000}, {"adoptive": False}],
    ids=lambda fields: next(iter(fields)),
)
def test_a_linked_file_is_read_as_its_stream_holds_it(
    tmp_path: Path, mirrored: bool, fields: dict[str, Any]
) -> None:
    file, messages = linked_range(tmp_path)
    own = {"mirrored": True, "source_header": None} if mirrored else {}
    work = link_work(tmp_path, file, **own | fields)
    receipt = transfer(work)
    found = (
        adopted_by(receipt, tmp_path / "staging")
        if receipt.adopted
        else brought(receipt, tmp_path / "staging")
    )
    wanted = expected_of(work, [m for m in messages if m.seq not in fields.get("removed", ())])
    if mirrored:
        assert found == wanted
    else:
        assert but_times_and_places(found) == but_times_and_places(wanted)


def test_a_row_group_of_it_returns_what_is_asked_for(tmp_path: Path) -> None:
    file, messages = linked_range(tmp_path)
    footer = parquet.read_footer(Path(file.path), None)
    with StoredFile(Path(file.path), footer, file.base_seq, copied=file.copied) as stored:
        group = stored.group(0)
        copied, plain = group.rows(), group.rows(add_source=False)
        assert copied.headers.to_pylist() == [m.headers for m in messages[: len(copied)]]
        assert plain.headers.to_pylist() == [
            message(seq).headers or None for seq in range(1, len(copied) + 1)
        ]
        assert set(copied.ts.tolist()) == set(plain.ts.tolist()) == {NOW}


@pytest.mark.parametrize("names", [COLUMNS.names, ["headers"], ["seq", "time"], ["nanos"], ["data", "seq"]])
def test_spark_reads_of_it_what_its_stream_holds(tmp_path: Path, names: list[str]) -> None:
    file, messages = linked_range(tmp_path)
    size = Path(file.path).stat().st_size
    stored = DataFile(file.path, file.base_seq, len(messages), file.first_seq, file.last_seq, size, NOW, NOW)
    linked = replace(stored, copied=file.copied)
    part = ReadRange(first_seq=150, last_seq=9_000, removed=removed_of([200]), file=linked)
    rows = [row for batch in read_batches(part, None, names) for row in batch.to_pylist()]
    wanted = [m for m in messages if 150 <= m.seq <= 9_000 and m.seq != 200]
    assert len(rows) == len(wanted)
    for row, held in zip(rows, wanted, strict=True):
        assert list(row) == names
        assert row.get("seq", held.seq) == held.seq
        assert row.get("nanos", 0) == 0
        assert row.get("data", held.data) == held.data
        if "time" in row:
            assert row["time"].timestamp() == NOW / 1e9
        if "headers" in row:
            named = {name.decode(): value.decode() for name, value in header_block.parse(held.headers) or []}
            assert {name: values[0] for name, values in row["headers"]} == named


# Which files a plan has a source link.


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    async with services(tmp_path) as shared:
        made: list[Stream] = []

        async def stream(name: str, **fields: Any) -> Stream:
            config = StreamConfig(name=name, **fields)
            made.append(await Stream.open(tmp_path / name, config, created_ns=len(made) + 1, services=shared))
            return made[-1]

        yield stream
        for each in made:
            await each.close()


async def files(
    origin: Stream, count: int, *, headers: bytes = b"", subjects: int = 1, size: int = 400
) -> None:
    for _ in range(count):
        origin.publishing.offer([(b"o.%d" % (n % subjects), b"", headers, bytes(size)) for n in range(COUNT)])
        await origin.publishing.settled()
        await origin.checkpoint()


def extent_of(origin: Stream) -> OriginRange:
    return OriginRange(origin.identity, 1, origin.reading.durable_seq)


async def works_of(origin: Stream, target: Stream, start_seq: int = 1, **source: Any) -> list[Work]:
    upstream = Upstream(target, StreamSource(name=origin.name, **source), mirrored=False)
    return await plan_local(upstream, origin, extent_of(origin), start_seq)


def rows_linked(works: Iterable[Work]) -> int:
    """Return how many messages were copied as linked files."""
    receipts = [transfer(work) for work in works]
    assert [receipt.error for receipt in receipts] == [""] * len(receipts)
    return sum(file.rows for receipt in receipts for file in receipt.adopted if file.copied)


async def test_whole_files_of_a_source_are_one_piece_of_work(streams: Callable[..., Any]) -> None:
    origin, target = await streams("O"), await streams("T")
    await files(origin, 3)
    (work,) = await works_of(origin, target)
    assert (work.stop_seq, len(work.files), work.read_bytes, work.traceable) == (3 * COUNT, 3, 0, True)
    assert rows_linked([work]) == 3 * COUNT


async def test_a_start_within_a_file_has_that_one_read_first(streams: Callable[..., Any]) -> None:
    origin, target = await streams("O"), await streams("T")
    await files(origin, 3)
    first = await works_of(origin, target, 10)
    assert first[-1].stop_seq == COUNT
    assert rows_linked(first) == 0
    (rest,) = await works_of(origin, target, COUNT + 1)
    assert rows_linked([rest]) == 2 * COUNT


@pytest.mark.parametrize(
    ("target", "source", "origin"),
    [
        ({}, {"filter_subject": "o.>"}, {}),
        ({}, {"subject_transforms": (TransformConfig(src="o.>", dest="x.>"),)}, {}),
        ({"subject_transform": TransformConfig(src="o.>", dest="x.>")}, {}, {}),
        ({"compression": Compression.S2}, {}, {}),
        ({"max_msgs_per_subject": COUNT}, {}, {}),
        ({}, {}, {"name": "Ö"}),
        ({}, {}, {"name": "N" * 255}),
    ],
    ids=["filter", "transform", "target's transform", "compression", "not adoptive", "odd name", "long name"],
)
async def test_what_keeps_a_source_from_files_keeps_its_plan_from_them(
    streams: Callable[..., Any], target: Any, source: Any, origin: Any
) -> None:
    one, two = await streams(origin.get("name", "O")), await streams("T", **target)
    await files(one, 1)
    works = await works_of(one, two, **source)
    assert works[0].read_bytes > 0
    assert rows_linked(works) == 0


async def test_a_table_of_before_has_files_read(
    streams: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await streams("O")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "TABLE", schema.TABLE_1)
        patch.setattr(schema, "PARTITIONS", (schema.PARTITION,))
        target = await streams("T")
    assert not target.replica.records_sources
    await files(origin, 1)
    works = await works_of(origin, target)
    assert rows_linked(works) == 0


async def test_removed_messages_and_small_files_are_read_between_files_that_are_linked(
    streams: Callable[..., Any],
) -> None:
    origin, target = await streams("O"), await streams("T")
    await files(origin, 2)
    await files(origin, 2, size=1)
    await files(origin, 1)
    await origin.retention.remove(COUNT + 7)
    stops, linked, start = [], [], 1
    while start <= 5 * COUNT:
        works = await works_of(origin, target, start)
        stops.append(works[-1].stop_seq // COUNT)
        linked.append(rows_linked(works) // COUNT)
        start = works[-1].stop_seq + 1
    # Of small files there are none by the time that they are merged.
    assert (stops, linked) == ([1, 4, 5], [1, 0, 1])


async def test_what_may_have_to_be_read_is_shared_out(
    streams: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.planner.PIECE_BYTES", 1)
    kinds: dict[str, dict[str, Any]] = {
        "HEADERS": {"headers": b"NATS/1.0\r\nA: 1\r\n\r\n"},
        "SUBJECTS": {"subjects": SUMMED_SUBJECTS + 1},
    }
    for name, fields in kinds.items():
        origin, target = await streams(name), await streams(f"T{name}")
        await files(origin, 3, **fields)
        works = await works_of(origin, target)
        assert [len(work.files) for work in works] == [1, 1, 1]
        assert all(work.read_bytes > 0 for work in works)
        for number, work in enumerate(works):
            expected = CursorAt(origin.identity)(number * COUNT) if number else b""
            assert (work.start_seq, work.expected) == (number * COUNT + 1, expected)
        assert rows_linked(works) == 3 * COUNT
    monkeypatch.setattr("headwater.upstreams.planner.SLOT_BYTES", 1)
    assert len(await works_of(origin, target)) == 1


async def test_of_files_that_may_have_to_be_read_a_plan_has_as_many_as_were_copied_within_seconds(
    streams: Callable[..., Any],
) -> None:
    for name, headers, expected in (("H", b"NATS/1.0\r\nA: 1\r\n\r\n", 3), ("P", b"", 4)):
        origin, target = await streams(name), await streams(f"T{name}")
        await files(origin, 4, headers=headers)
        upstream = Upstream(target, StreamSource(name=name), mirrored=False)
        upstream.pace.saw(1, 4 * COUNT, NOW)
        upstream.pace.handed_out(NOW)
        # Half a file in a second, so that six seconds have three at the most.
        upstream.pace.committed(COUNT // 2, 1000, COUNT // 2, NOW + 1_000_000_000)
        works = await plan_local(upstream, origin, extent_of(origin), 1, 2, NOW + 1_000_000_000)
        assert sum(len(work.files) for work in works) == expected


async def test_files_added_since_the_origin_was_read_wait(streams: Callable[..., Any]) -> None:
    origin, target = await streams("O"), await streams("T")
    await files(origin, 2)
    before = extent_of(origin)
    await files(origin, 2)
    upstream = Upstream(target, StreamSource(name="O"), mirrored=False)
    (work,) = await plan_local(upstream, origin, before, 1)
    assert (work.stop_seq, len(work.files)) == (2 * COUNT, 2)
    (cut,) = await plan_local(upstream, origin, OriginRange(origin.identity, 1, COUNT - 1), 1)
    assert (cut.stop_seq, rows_linked([cut])) == (COUNT - 1, 0)
