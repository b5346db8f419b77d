"""Results of a pipeline become a receipt; several of one message stay together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from headwater.model import headers as header_block
from headwater.replication.work import DeadLetters, Receipt, WorkPipeline
from headwater.replication.worker import row_writer
from headwater.replication.worker.row_reader import RowEnd
from headwater.replication.worker.row_writer import RowWriter
from replication.works import brought, work_of

RESULTS = pa.schema(
    [
        ("__seq", pa.int64()),
        ("__ts", pa.int64()),
        ("__origin", pa.string()),
        ("__headers", pa.binary()),
        ("__fault", pa.int32()),
        ("payload", pa.binary()),
        ("subject", pa.string()),
        ("data", pa.string()),
    ]
)


def row(seq: int, data: str | None, **changed: Any) -> dict[str, Any]:
    usual = {
        "__ts": seq,
        "__origin": "o",
        "__headers": None,
        "__fault": None,
        "payload": b"p",
        "subject": "s",
    }
    return {**usual, "__seq": seq, "data": data, **changed}


def written(
    *batches: list[dict[str, Any]],
    end: RowEnd | None = None,
    several: bool = True,
    staging: str = "",
    dead: str = "",
) -> Receipt:
    letters = DeadLetters(stream="DEAD", staging=dead) if dead else None
    work = work_of(
        stop_seq=100,
        staging=staging,
        source_header=("O", ">", ">", "I"),
        pipeline=WorkPipeline(select="x", origin="O", dead=letters),
    )
    with RowWriter(work, ("subject", "data"), makes_several=several) as writer:
        for batch in batches:
            writer.append(pa.RecordBatch.from_pylist(batch, RESULTS))
        return writer.receipt(end or RowEnd(through=100, read=9))


def test_results_of_one_message_in_two_batches_fail_together(tmp_path: Path) -> None:
    receipt = written(
        [row(1, "a"), row(2, "b"), row(2, "c")], [row(2, None), row(3, "d")], dead=str(tmp_path)
    )
    assert [(m.seq, m.data) for m in brought(receipt)] == [(1, b"a"), (3, b"d")]
    assert receipt.dead is not None
    assert [(m.seq, m.data) for m in brought(receipt.dead)] == [(2, b"p")]


def test_several_results_have_ids_of_their_own() -> None:
    block = header_block.build([(b"Nats-Msg-Id", b"i"), (b"Nats-Rollup", b"all")])
    receipt = written(
        [row(1, "a", __headers=block), row(1, "b", __headers=block), row(2, "c", __headers=block)]
    )
    headers = [m.headers for m in brought(receipt)]
    assert [header_block.get(each, b"Nats-Msg-Id") for each in headers] == [b"i", b"i-2", b"i"]
    assert [header_block.get(each, b"Nats-Rollup") for each in headers] == [None, None, b"all"]


def test_results_that_are_too_large_together_are_one_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_writer, "OUTPUT_BYTES", 1000)
    batches = [
        [row(1, "x" * 600), row(1, "x" * 600)],
        [row(1, "x" * 600)],
        [row(1, "y"), row(2, "z")],
        [row(3, "w")],
    ]
    receipt = written(*batches, dead=str(tmp_path))
    assert [(m.seq, m.data) for m in brought(receipt)] == [(2, b"z"), (3, b"w")]
    assert receipt.dead is not None
    assert [m.seq for m in brought(receipt.dead)] == [1]


def test_a_range_without_dead_letters_ends_before_a_fault_and_settles_nothing_after_it() -> None:
    end = RowEnd(through=100, read=9, settled=bytes(BitMap64([1, 2, 3, 4]).serialize()), ack_key="k")
    receipt = written([row(1, "a"), row(2, "b")], [row(3, None, subject=None), row(4, "d")], end=end)
    assert [m.seq for m in brought(receipt)] == [1, 2]
    assert (receipt.through, receipt.stopped) == (2, "message 3: the subject is null")
    assert list(BitMap64.deserialize(receipt.settled)) == [1, 2]


def test_a_large_result_is_staged_with_numbers_of_its_own(tmp_path: Path) -> None:
    rows = [row(seq, "x" * 100_000) for seq in (1, 1, 2, 2, 2, 3)]
    receipt = written(rows, staging=str(tmp_path))
    assert receipt.renumbered
    found = brought(receipt, tmp_path)
    assert [m.seq for m in found] == list(range(6))
    assert b"\r\nNats-Stream-Source: O 2 > > o I" in found[2].headers
