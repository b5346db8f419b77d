"""One piece of work done: read the range, take what is wanted, hand in a receipt.

This is what Spark's executors run. It needs the store's files or the origin's API, and nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.errors import BusError, Error
from headwater.model.columns import Columns, Int64s, keep
from headwater.replication.origin import OriginReader
from headwater.replication.result import Result
from headwater.replication.rewrite import Rewrite
from headwater.replication.work import FileRange, Receipt, Work
from headwater.table import parquet
from headwater.table.output import footer_crc_of
from headwater.wire import column_bytes

_decode_work = msgspec.msgpack.Decoder(Work).decode
_encode = msgspec.msgpack.Encoder().encode


def transfer_all(works: list[bytes]) -> list[bytes]:
    """Do pieces of work one after the other; they come as bytes, and so go their receipts."""
    return [_encode(transfer(_decode_work(work))) for work in works]


def transfer(work: Work) -> Receipt:
    """Return the receipt of a piece of work; a failure is told in it and never raised."""
    try:
        with Result(work) as result:
            rewrite = Rewrite(work)
            origin = _origin_reader(work)
            for columns in origin or _stored(work):
                result.append(rewrite.apply(columns))
            return result.receipt(origin.through if origin else work.stop_seq)
    except FileNotFoundError as error:
        return failed(work, f"{error.filename} is gone: it was replaced while its range was planned")
    except BusError as error:
        return failed(work, error.problem)
    except (Error, OSError) as error:
        return failed(work, str(error))
    except Exception as error:  # a task that raises would take the whole job with it
        return failed(work, f"{type(error).__name__}: {error}")


def failed(work: Work, reason: str) -> Receipt:
    """Return the receipt of a piece of work that brought nothing, with the reason in one line."""
    return Receipt(
        work=work.id,
        target=work.target,
        upstream=work.upstream,
        expected=work.expected,
        error=" ".join(reason.split()) or "unknown",
    )


def _origin_reader(work: Work) -> OriginReader | None:
    """Return what reads the range through the origin's API, if it is to be read there."""
    if work.origin is None:
        return None
    filters = work.filters or tuple(src or ">" for src, _ in work.transforms)
    return OriginReader(work.origin, work.start_seq, work.stop_seq, filters)


def _stored(work: Work) -> Iterator[Columns]:
    """Yield the live messages of the files, then those of the tail, a row group's worth at a time."""
    removed = BitMap64.deserialize(work.removed) if work.removed else BitMap64()
    for file in work.files:
        yield from _rows(file, work.start_seq, work.stop_seq, removed)
    if work.tail:
        columns = column_bytes.decode(work.tail)
        yield keep(columns, _between(columns.seqs, work.start_seq, work.stop_seq))


def _rows(file: FileRange, start_seq: int, stop_seq: int, removed: BitMap64) -> Iterator[Columns]:
    """Yield what is left of a file's messages in a range; row groups that hold none are not read."""
    path = Path(file.path)
    footer = parquet.read_footer(path, footer_crc_of(file.path))
    for index, (first_offset, last_offset) in enumerate(footer.bounds):
        first, last = file.base_seq + first_offset, file.base_seq + last_offset
        if last < start_seq or first > stop_seq:
            continue
        gone = removed.range_cardinality(first, last + 1)
        if gone == last - first + 1:
            continue
        group = parquet.read_group(path, footer, index, file.base_seq)
        mask = _between(group.seqs, start_seq, stop_seq)
        if gone:
            seqs = group.seqs.tolist()
            mask &= np.fromiter((seq not in removed for seq in seqs), np.bool_, len(seqs))
        yield keep(group.columns(), mask)


def _between(seqs: Int64s, start_seq: int, stop_seq: int) -> npt.NDArray[np.bool_]:
    return (seqs >= start_seq) & (seqs <= stop_seq)
