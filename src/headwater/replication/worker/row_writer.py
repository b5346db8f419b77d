"""Writes the results of a pipeline for the target, and failed messages for the stream of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from headwater.model import headers as header_block
from headwater.model.headers import MESSAGE_ID
from headwater.replication.work import Receipt, Work, WorkPipeline
from headwater.replication.worker.dead_letter import DeadLetter, dead_rows
from headwater.replication.worker.result import Result
from headwater.replication.worker.rewrite import Rewrite
from headwater.replication.worker.row_faults import OUTPUT_BYTES, header_pairs, subject_fault, text_of
from headwater.replication.worker.row_reader import RowEnd
from headwater.replication.worker.task_bucket import open_bucket
from headwater.replication.worker.transfer import origin_files
from headwater.table.rows import Rows

ROLLUP = b"Nats-Rollup"
MOST_SAMPLES = 8
SAMPLE_BYTES = 256 << 10
"""How many failed messages are sent back, so that Spark can say why they fail."""


class RowSample(msgspec.Struct, frozen=True, array_like=True):
    """A message on which the SQL of a pipeline failed."""

    seq: int
    ts: int
    origin: str
    subject: str
    headers: bytes
    payload: bytes


class RowWriter:
    """Collects the results of one range; leaving the `with` before the receipt removes its files."""

    def __init__(self, work: Work, columns: Sequence[str], *, makes_several: bool) -> None:
        pipeline = work.pipeline
        assert pipeline is not None
        self._pipeline: WorkPipeline = pipeline
        self._columns = columns
        """The columns of the select; others are as in the origin."""
        self._makes_several = makes_several
        bucket = open_bucket(work.tables)
        self._without_ids = "headers" not in columns and _have_no_ids(work)
        if work.adoptive_without_ids and self._without_ids:
            work = msgspec.structs.replace(work, adoptive=True)
        self._work = work
        self._rewrite = Rewrite(msgspec.structs.replace(work, filters=(), transforms=()))
        self._result = Result(
            work, bucket=bucket, may_have_ids=not self._without_ids, renumbers=makes_several
        )
        self._dead = Result(_dead_work(work, pipeline), bucket=bucket) if pipeline.dead else None
        """The failed messages; None if the range ends before the first one."""
        self._held: list[pa.RecordBatch] = []
        """The last results, whose message may have more of them."""
        self._is_over = False
        """Whether the results of that message are too large together."""
        self._stop_seq = 0
        """The failed message that ends the range; 0 if there is none."""
        self.samples: list[RowSample] = []
        """Failed messages of which only Spark knows why."""
        self._stopped = ""

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._result.__exit__(*raised)
        if self._dead is not None:
            self._dead.__exit__(*raised)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add results; several of one message are kept together."""
        if self._stop_seq or not batch.num_rows:
            return
        if self._makes_several:
            if self._is_over and (batch := self._after_held(batch)).num_rows == 0:
                return
            whole = pa.Table.from_batches([*self._held, batch]).combine_chunks().to_batches()[0]
            seqs = whole.column("__seq").to_numpy()
            start = int(np.searchsorted(seqs, seqs[-1]))
            self._hold(whole.slice(start))
            batch = whole.slice(0, start)
        if batch.num_rows:
            self._write(batch, frozenset())

    def _after_held(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what is not of the message whose results are too large; write that one once it is whole."""
        seq = self._held[0].column("__seq")[0].as_py()
        rest = batch.filter(pa.array(batch.column("__seq").to_numpy() != seq))
        if rest.num_rows:
            self._end_held()
        return rest

    def _hold(self, group: pa.RecordBatch) -> None:
        size = group.nbytes if group.num_rows > 1 else 0
        self._is_over = size > OUTPUT_BYTES
        self._held = [group.slice(0, 1) if self._is_over else group]

    def _end_held(self) -> None:
        held, is_over = self._held, self._is_over
        self._held, self._is_over = [], False
        for group in held:
            self._write(group, frozenset(group.column("__seq").to_pylist() if is_over else ()))

    def _write(self, batch: pa.RecordBatch, over: frozenset[int]) -> None:
        faults = self._faults(batch, over)
        seqs = batch.column("__seq").to_numpy()
        if faults:
            bad = np.unique(seqs[list(faults)])
            keep = ~np.isin(seqs, bad)
            if self._dead is None:
                self._stop(batch, faults, int(bad[0]))
                keep = seqs < bad[0]
            else:
                self._bury(batch, faults, seqs)
            batch = batch.filter(pa.array(keep))
        if batch.num_rows:
            self._result.append(self._rows(batch))

    def _faults(self, batch: pa.RecordBatch, over: frozenset[int]) -> dict[int, str]:
        """Return the rows that fail, each with the reason; it is empty if only Spark knows it."""
        found = batch.column("__fault")
        faults = {row: text_of(found[row].as_py()) for row in np.flatnonzero(found.is_valid()).tolist()}
        faults |= {
            row: f"its messages have more than {OUTPUT_BYTES >> 20} MiB"
            for row in range(batch.num_rows)
            if over
        }
        checks: list[dict[int, str]] = []
        if "subject" in self._columns:
            checks.append(_subject_faults(batch))
        datas = batch.column("data" if "data" in self._columns else "payload")
        checks.append(dict.fromkeys(np.flatnonzero(datas.is_null()).tolist(), "the data is null"))
        if "headers" in self._columns:
            checks.append(_header_faults(batch))
        if self._pipeline.most_bytes:
            checks.append(self._size_faults(batch, datas))
        for check in checks:
            faults = check | faults
        return faults

    def _size_faults(self, batch: pa.RecordBatch, datas: pa.Array) -> dict[int, str]:
        most = self._pipeline.most_bytes
        sizes = pa.compute.binary_length(datas).fill_null(0).to_numpy().astype(np.int64)
        sizes += pa.compute.binary_length(batch.column("__headers")).fill_null(0).to_numpy()
        too_large = f"the stream takes messages of up to {most:,} bytes"
        return dict.fromkeys(np.flatnonzero(sizes > most).tolist(), too_large)

    def _stop(self, batch: pa.RecordBatch, faults: dict[int, str], seq: int) -> None:
        """End the range before a failed message."""
        row = next(row for row in sorted(faults) if batch.column("__seq")[row].as_py() == seq)
        self._stop_seq, self._stopped = seq, faults[row] or "the SQL fails"
        self._held = []
        if not faults[row]:
            self._sample(_message(batch, self._first_of(batch, row)))

    def _bury(self, batch: pa.RecordBatch, faults: dict[int, str], seqs: npt.NDArray[np.int64]) -> None:
        """Add the failed messages to the dead letters, each once."""
        letters: dict[int, DeadLetter] = {}
        for row in sorted(faults):
            seq = int(seqs[row])
            if seq in letters:
                continue
            sample = _message(batch, self._first_of(batch, row))
            letters[seq] = DeadLetter(
                seq, sample.ts, sample.origin, sample.headers, sample.payload, faults[row]
            )
            if not faults[row]:
                self._sample(sample)
        assert self._dead is not None
        target, origin = self._work.target, self._pipeline.origin
        self._dead.append(dead_rows(list(letters.values()), target=target, origin=origin))

    def _first_of(self, batch: pa.RecordBatch, row: int) -> int:
        """Return the first result of the same message, which has its payload."""
        if not self._makes_several:
            return row
        seqs = batch.column("__seq").to_numpy()
        return int(np.searchsorted(seqs, seqs[row]))

    def _sample(self, sample: RowSample) -> None:
        size = sum(len(each.payload) for each in self.samples)
        if len(self.samples) < MOST_SAMPLES and size + len(sample.payload) <= SAMPLE_BYTES:
            self.samples.append(sample)

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        """Return results as the target stores them."""
        seqs, ts = batch.column("__seq").to_numpy(), batch.column("__ts").to_numpy()
        datas = batch.column("data" if "data" in self._columns else "payload").cast(pa.binary())
        headers = batch.column("__headers")
        if "headers" in self._columns:
            built = [header_pairs(each) for each in batch.column("headers").to_pylist()]
            blocks = [header_block.build(pairs) or None for pairs in built if not isinstance(pairs, str)]
            headers = pa.array(blocks, pa.binary())
        if self._makes_several and headers.null_count < len(headers):
            headers = _distinct(seqs, headers)
        origins = batch.column("__origin").dictionary_encode()
        headers = self._rewrite.headers(Rows(seqs, ts, origins, headers, datas))
        subjects = batch.column("subject").dictionary_encode()
        rows = Rows(seqs, ts, subjects, headers, datas)
        if not self._rewrite.keeps_subjects:
            rows = Rows(seqs, ts, self._rewrite.subjects(rows), headers, datas)
        return rows

    def receipt(self, end: RowEnd) -> Receipt:
        """Return the receipt of the range, once all results were added."""
        self._end_held()
        through, settled = end.through, end.settled
        if self._stop_seq:
            through = self._stop_seq - 1
            if settled:
                kept = BitMap64.deserialize(settled)
                kept.remove_range(self._stop_seq, 1 << 63)
                settled = bytes(kept.serialize()) if kept else b""
        dead = self._dead.receipt(through) if self._dead is not None else None
        return msgspec.structs.replace(
            self._result.receipt(through),
            ts=end.ts,
            read=end.read,
            settled=settled,
            ack_key=end.ack_key,
            without_ids=self._without_ids,
            dead=dead if dead is not None and dead.rows else None,
            stopped=f"message {self._stop_seq}: {self._stopped}" if self._stop_seq else "",
        )


def _have_no_ids(work: Work) -> bool:
    """Return whether it is proven that no message of a range has an id."""
    if work.tail or not work.files:
        return False
    return all(each.proves_no_ids for each in origin_files(open_bucket(work.tables), work.files))


def _dead_work(work: Work, pipeline: WorkPipeline) -> Work:
    """Return a range of the same origin for the stream of dead letters."""
    assert pipeline.dead is not None
    return Work(
        id=f"{work.id}-dead",
        target=pipeline.dead.stream,
        upstream=work.upstream,
        expected=b"",
        start_seq=work.start_seq,
        stop_seq=work.stop_seq,
        staging=pipeline.dead.staging,
        compression=pipeline.dead.compression,
        tables=work.tables,
    )


def _message(batch: pa.RecordBatch, row: int) -> RowSample:
    return RowSample(
        batch.column("__seq")[row].as_py(),
        batch.column("__ts")[row].as_py(),
        batch.column("__origin")[row].as_py(),
        batch.column("subject")[row].as_py() or "",
        batch.column("__headers")[row].as_py() or b"",
        batch.column("payload")[row].as_py() or b"",
    )


def _subject_faults(batch: pa.RecordBatch) -> dict[int, str]:
    coded = batch.column("subject").dictionary_encode()
    texts = coded.dictionary.to_pylist()
    # The origin's own subject may be one that is not text.
    odd = {code for code, text in enumerate(texts) if subject_fault(text, "")}
    faults: dict[int, str] = {}
    if odd or coded.null_count:
        subjects, origins = batch.column("subject"), batch.column("__origin")
        codes = coded.indices.fill_null(-1).to_numpy()
        for row in np.flatnonzero(np.isin(codes, [-1, *odd])).tolist():
            if reason := subject_fault(subjects[row].as_py(), origins[row].as_py()):
                faults[row] = reason
    return faults


def _header_faults(batch: pa.RecordBatch) -> dict[int, str]:
    built = enumerate(header_pairs(each) for each in batch.column("headers").to_pylist())
    return {row: pairs for row, pairs in built if isinstance(pairs, str)}


def _distinct(seqs: npt.NDArray[np.int64], headers: pa.BinaryArray) -> pa.BinaryArray:
    """Return headers with an id of its own for each of several messages that one became, and no rollups."""
    blocks = headers.to_pylist()
    _, firsts, counts = np.unique(seqs, return_index=True, return_counts=True)
    for first, count in zip(firsts[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        for number, row in enumerate(range(first, first + count), 1):
            block = header_block.remove(blocks[row] or b"", ROLLUP)
            message_id = header_block.get(block, MESSAGE_ID) if block else None
            if message_id and number > 1:
                block = header_block.replace(block, MESSAGE_ID, b"%s-%d" % (message_id, number))
            blocks[row] = block or None
    return pa.array(blocks, pa.binary())
