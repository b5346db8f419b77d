"""Messages and files for the tests of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.model.columns import Columns
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.table import Table

TS = 1_790_000_000_123_456_789


def columns_of(messages: Sequence[Message]) -> Columns:
    """Return the messages as columns."""
    return Columns(
        np.array([m.seq for m in messages], np.int64),
        np.array([m.ts for m in messages], np.int64),
        np.array([len(m.subject) for m in messages], np.uint32),
        b"".join(m.subject for m in messages),
        np.array([len(m.headers) for m in messages], np.uint32),
        b"".join(m.headers for m in messages),
        np.array([len(m.data) for m in messages], np.uint32),
        b"".join(m.data for m in messages),
    )


def message(seq: int) -> Message:
    """Return a message whose every field follows from its sequence."""
    headers = b"NATS/1.0\r\nSeq: %d\r\n\r\n" % seq if seq % 3 == 0 else b""
    return Message(seq, TS + seq * 1_000_001, b"orders.%d" % (seq % 7), headers, b"payload %d" % seq)


def columns(seqs: Iterable[int]) -> Columns:
    """Return the messages of these sequences as columns."""
    return columns_of([message(seq) for seq in seqs])


def messages_of(run: Run) -> list[Message]:
    """Return every message of a run."""
    return [run.message(index) for index in range(len(run))]


def everything(table: Table) -> list[Message]:
    """Return every message of a table, in order."""
    return [
        message
        for file in table.files
        for index in range(len(table.groups(file)))
        for message in messages_of(table.read_group(file, index))
    ]


def append(table: Table, seqs: Sequence[int]) -> None:
    """Commit the messages of these sequences as one file, as a fold does."""
    table.commit([table.write(columns(seqs))], transactions={"headwater-fold": seqs[-1]})


@st.composite
def runs_of_messages(draw: st.DrawFn, max_size: int = 30) -> list[Message]:
    """Draw messages in ascending sequence with any bytes in them."""
    gaps = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=max_size))
    seqs = np.cumsum(gaps).tolist()
    subject = st.one_of(
        st.binary(min_size=1, max_size=20), st.sampled_from([b"a.b", "ü.ö".encode(), b"\xff"])
    )
    subject = st.one_of(subject, st.text(min_size=1, max_size=5).map(str.encode))
    ts = st.integers(-(10**15), 4 * 10**18)
    return [
        Message(seq, draw(ts), draw(subject), draw(st.binary(max_size=20)), draw(st.binary(max_size=50)))
        for seq in seqs
    ]


class BreakableDisk(RealDisk):
    """A disk that refuses the operations for which `refuses` is true."""

    def __init__(self) -> None:
        super().__init__(sync=False)
        self.refuses: Callable[[str, Path], bool] = lambda operation, path: False
        self.calls: list[tuple[str, Path]] = []

    def sync_file(self, path: Path) -> None:
        self._perform("sync_file", path)
        super().sync_file(path)

    def sync_dir(self, path: Path) -> None:
        self._perform("sync_dir", path)
        super().sync_dir(path)

    def rename(self, source: Path, target: Path) -> None:
        self._perform("rename", source)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._perform("remove", path)
        super().remove(path)

    def _perform(self, operation: str, path: Path) -> None:
        """Note the operation, and refuse it when it is to be refused."""
        self.calls.append((operation, path))
        if self.refuses(operation, path):
            raise DiskError(path, operation, 5)
