"""Messages that got their sequences and will share a batch of the log."""

from __future__ import annotations

from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.retention.removal import Removal

BATCH_BYTES = 256 << 10
"""About the largest payload of a batch, so that a damaged one loses little."""


class PendingGroup:
    """Messages admitted one by one that will share a batch, and what they remove."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        """Whether they must share one batch, however large."""
        self.clear()

    def clear(self) -> None:
        """Begin again with no message."""
        self.seqs: list[int] = []
        self.timestamps: list[int] = []
        self.subjects: list[bytes] = []
        self.headers: list[bytes] = []
        self.datas: list[bytes] = []
        self.nbytes = 0
        self.removal = Removal()
        self.skipped = False
        """Whether sequences were consumed that hold no message."""

    @property
    def is_full(self) -> bool:
        """Return whether the next message belongs in another batch."""
        return self.nbytes >= BATCH_BYTES and not self.whole

    def __bool__(self) -> bool:
        return bool(self.seqs)

    def add(self, seq: int, ts: int, subject: bytes, headers: bytes, data: bytes) -> None:
        """Add a message that has its sequence."""
        self.seqs.append(seq)
        self.timestamps.append(ts)
        self.subjects.append(subject)
        self.headers.append(headers)
        self.datas.append(data)
        self.nbytes += len(subject) + len(headers) + len(data)

    def run(self) -> OfferedRun:
        """Return the messages as one run."""
        return OfferedRun(self.seqs, self.timestamps, self.subjects, self.headers, self.datas)
