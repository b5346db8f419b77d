"""All servers of a journal end at once: killed, with a torn record at the end of one, or by a power cut.

At a power cut their disks forget what was not synced (`forgetful.py`). Nothing acknowledged is lost.
"""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from forgetful import forgetful, missing
from headwater.journal.appender import Appender
from headwater.journal.head_journal import HeadJournal, JournalError
from headwater.journal.record import ChangePiece, FileOp, RecordKind, decode
from journal_cluster import JournalCluster, journal_cluster
from journals import PATIENCE_S, eventually, jetstream_journal
from rounds import choose_seed, rounds

PLACE = "CRASH"
WANTED = 40
"""How many records are acknowledged before the servers are killed."""


class Writer:
    """A thread that appends records until the servers are killed, and what was acknowledged."""

    def __init__(self, journal: HeadJournal, last: int, epoch: int) -> None:
        self._journal = journal
        self._appender = Appender(journal, "id", epoch, "the test", last)
        self.acknowledged: dict[int, bytes] = {}
        self.is_warm = threading.Event()
        self.is_over = threading.Event()
        """Set when the servers are about to be killed; until then the journal is tried again."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                data = b"%d " % self._appender.last * 200
                pieces = (ChangePiece(FileOp.WHOLE, "$G/x", 0, data),)
                self._appender.append(RecordKind.CHANGES, pieces, 1, lambda error: self.is_over.is_set())
                self.acknowledged[self._appender.last] = data
                if len(self.acknowledged) >= WANTED:
                    self.is_warm.set()
        except JournalError:
            assert self.is_over.is_set()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def tear(cluster: JournalCluster, number: int, length: int) -> int:
    """Leave the beginning of another record at the end of each log of a server; return how many there are."""
    logs = {path.parent: path for path in sorted((cluster.folder(number) / "jetstream").rglob("*.blk"))}
    for newest in logs.values():
        content = newest.read_bytes()
        newest.write_bytes(content + content[:length])
    return len(logs)


@pytest.mark.timeout(0)
def test_a_journal_whose_servers_all_end_at_once_has_what_was_acknowledged() -> None:
    rng = random.Random(f"{choose_seed()} journal crash")
    held: dict[int, bytes] = {}
    with journal_cluster() as cluster:
        for epoch in range(1, rounds(1) + 1):
            acknowledge(cluster, epoch, held)
            assert tear(cluster, rng.randrange(3), rng.randrange(5, 500))
            cluster.start_all()
            require(cluster, held)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.timeout(0)
def test_a_journal_whose_servers_all_lose_power_has_what_was_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(f"{choose_seed()} journal power")
    held: dict[int, bytes] = {}
    cluster = JournalCluster(tmp_path, disk="disk")
    with ExitStack() as stack:
        folders = [cluster.folder(number) for number in range(3)]
        disks = [stack.enter_context(forgetful(folder, rng.randrange(1 << 32))) for folder in folders]
        stack.callback(cluster.stop)
        cluster.start_all()
        for epoch in range(1, rounds(1) + 1):
            acknowledge(cluster, epoch, held)
            for disk in disks:
                disk.cut()
                disk.start(rng.randrange(1 << 32))
            cluster.start_all()
            require(cluster, held)


def acknowledge(cluster: JournalCluster, epoch: int, held: dict[int, bytes]) -> None:
    """Append records until all servers are killed in the middle of it; add what was acknowledged."""
    journal = jetstream_journal(cluster.place(PLACE))
    writer = Writer(journal, journal.last(), epoch)
    assert writer.is_warm.wait(PATIENCE_S)
    writer.is_over.set()
    for number in range(3):
        cluster.kill(number)
    writer.join()
    journal.close()
    assert len(writer.acknowledged) >= WANTED
    held |= writer.acknowledged


def require(cluster: JournalCluster, held: dict[int, bytes]) -> None:
    """Fail unless all of these records are at their positions, and another one can be appended."""
    journal = jetstream_journal(cluster.place(PLACE))
    found: list[int] = []
    eventually(lambda: found.append(journal.last()))
    assert found[-1] >= max(held)
    for position, data in held.items():
        records: list[bytes | None] = []
        eventually(lambda position=position, records=records: records.append(journal.get(position)))
        record = records[-1]
        assert record is not None, position
        assert decode(record, "journal", position).pieces[0].data == data
    appender = Appender(journal, "id", 1000, "the test", found[-1])
    eventually(lambda: appender.append(RecordKind.CHANGES, (), 1))
    journal.close()
