"""Runs of messages in memory, and a ledger that covers them, for tests that need no files."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.ledger import Ledger
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.retention.removal import FILE_OVERHEAD, Removal


def run_of(messages: Sequence[Message]) -> OfferedRun:
    """Return the messages as one run."""
    return OfferedRun(*(list(column) for column in zip(*messages, strict=True)))


def message(seq: int, subject: bytes = b"a", data: bytes = b"", headers: bytes = b"") -> Message:
    """Return a message whose time follows from its sequence."""
    return Message(seq, seq * 10, subject, headers, data)


class Pieces:
    """Messages divided into runs, the ledger of all of them, and their readers."""

    def __init__(self, *runs: Sequence[Message], history: bool = False) -> None:
        self.runs = [run_of(messages) for messages in runs if messages]
        self.ledger = Ledger(FILE_OVERHEAD, dedupe_window_ns=1 << 40, history=history)
        self.reads: list[int] = []
        for run in self.runs:
            sizes = FILE_OVERHEAD.sizes(run).tolist()
            self.ledger.append(run.seq_list, run.timestamps, run.subjects, sizes)

    def read(self, seq: int) -> Run | None:
        """Return the first run with a row at or after a sequence, removed or not."""
        self.reads.append(seq)
        return next((run for run in self.runs if run.seq_list[-1] >= seq), None)

    def live(self) -> list[Message]:
        """Return the messages that the ledger says are there."""
        rows = [run.message(row) for run in self.runs for row in range(len(run))]
        return [message for message in rows if self.ledger.is_live(message.seq)]

    def remove(self, *seqs: int) -> None:
        """Take out live messages."""
        self.ledger.remove(removal_of([m for m in self.live() if m.seq in seqs]))


def removal_of(messages: Sequence[Message]) -> Removal:
    """Return the removal of these messages."""
    removal = Removal()
    for seq, _, subject, headers, data in messages:
        removal.take_known(seq, subject, FILE_OVERHEAD.of(subject, headers, data))
    return removal
