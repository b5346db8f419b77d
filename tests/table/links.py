"""Files of a source's origin in the staging directory of its target, as a transfer task leaves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from headwater.disk import RealDisk
from headwater.model import headers as header_block
from headwater.model.adopted import Adopted
from headwater.model.copied import SOURCE_HEADER, Copied
from headwater.model.message import Message
from headwater.table.adopted_sums import adopted_of
from headwater.table.parquet import FileWriter
from table.samples import columns_of, message

SOURCE, IDENTITY = "ORDERS", "Ab1"


def staged_link(
    staging: Path, messages: Sequence[Message], name: str = "one", base_seq: int = 0, *, linked: bool = True
) -> Adopted:
    """Return what a receipt says of a file of these messages that is now in staging."""
    RealDisk(sync=False).mkdir(staging)
    writer = FileWriter(staging / "unnamed", base_seq)
    writer.append(columns_of(messages))
    stats = writer.finish()
    sums = stats.sums
    assert sums is not None
    path = staging / f"{name}-{stats.footer_crc:08x}.parquet"
    (staging / "unnamed").rename(path)
    copied = Copied(SOURCE, IDENTITY, base_seq, 0, sums.first_ts, sums.last_ts, sums.with_headers)
    return adopted_of(path.name, stats.content.size_bytes, sums, base_seq, copied if linked else None)


def link_of(staging: Path, seqs: Iterable[int], name: str = "one", base_seq: int = 0) -> Adopted:
    """Return the same of the sample messages of these sequences."""
    return staged_link(staging, [message(seq) for seq in seqs], name, base_seq)


def sourced(origin: Message, seq: int, ts: int) -> Message:
    """Return a message of the origin as the target has it."""
    where = b"%s %d > > %s %s" % (SOURCE.encode(), origin.seq, origin.subject, IDENTITY.encode())
    return origin._replace(seq=seq, ts=ts, headers=header_block.add(origin.headers, SOURCE_HEADER, where))
