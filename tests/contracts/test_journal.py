"""What holds for every journal: objects in a folder and in SeaweedFS, and a stream of a real NATS cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from headwater.errors import FencedError
from headwater.journal.appender import Appender, JournalFencedError
from headwater.journal.head_journal import HeadJournal, JournalError, PositionTakenError
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.record import RecordKind
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from journal_cluster import JournalCluster
from journals import Head, folder_journal, jetstream_journal
from seaweed import SeaweedServer

Opener = Callable[[], HeadJournal]


@pytest.fixture(scope="module")
def bucket(seaweed_server: SeaweedServer) -> BucketAddress:
    """Return one bucket for all tests: the first write to a new one takes seconds."""
    return seaweed_server.new_bucket()


@pytest.fixture(params=["file", "s3", "jetstream"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Return a function that opens one new journal, through a client of its own each time."""
    found: list[HeadJournal] = []

    def opening(opener: Opener) -> Opener:
        def keep() -> HeadJournal:
            found.append(opener())
            return found[-1]

        return keep

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "file":
            yield opening(lambda: folder_journal(tmp_path / "journal"))
        elif request.param == "s3":
            server: SeaweedServer = request.getfixturevalue("seaweed_server")
            for name, value in server.environment.items():
                patch.setenv(name, value)
            address = request.getfixturevalue("bucket").below(uuid4().hex)
            yield opening(lambda: ObjectJournal(Bucket(address)))
        else:
            cluster: JournalCluster = request.getfixturevalue("journal_servers")
            place = cluster.place(uuid4().hex)
            yield opening(lambda: jetstream_journal(place))
        for journal in found:
            journal.close()


def test_an_empty_journal_has_no_position(opened: Opener) -> None:
    journal = opened()
    assert journal.last() == 0
    assert journal.get(1) is None
    assert journal.copies == (1 if isinstance(journal, ObjectJournal) else 3)
    assert len(journal.peers()) == journal.copies - 1


def test_records_are_found_by_another_client_in_their_order(opened: Opener) -> None:
    journal = opened()
    for position in range(1, 101):
        journal.append(position, b"record %d" % position)
    again = opened()
    assert (again.last(), again.last(50)) == (100, 100)
    assert list(again.read(3, 100)) == [b"record %d" % position for position in range(3, 101)]
    assert again.get(100) == b"record 100"


def test_a_record_of_almost_a_mebibyte_is_kept_as_it_is(opened: Opener) -> None:
    record = bytes(range(256)) * 3900
    opened().append(1, record)
    assert opened().get(1) == record


def test_a_position_is_given_once(opened: Opener) -> None:
    opened().append(1, b"ours")
    with pytest.raises(PositionTakenError):
        opened().append(1, b"theirs")
    assert opened().get(1) == b"ours"


def test_of_two_engines_that_append_at_once_one_succeeds(opened: Opener) -> None:
    journals, barrier = [opened(), opened(), opened()], Barrier(3)

    def append(number: int) -> bool:
        barrier.wait()
        try:
            journals[number].append(1, b"%d" % number)
        except PositionTakenError:
            return False
        return True

    with ThreadPoolExecutor(3) as threads:
        won = list(threads.map(append, range(3)))
    assert sum(won) == 1
    assert opened().get(1) == b"%d" % won.index(True)


def test_what_is_trimmed_is_gone_and_its_positions_stay_taken(opened: Opener) -> None:
    journal = opened()
    for position in range(1, 11):
        journal.append(position, b"%d" % position)
    journal.trim(8, keep={5})
    again = opened()
    assert [again.get(position) for position in (1, 7, 8)] == [None, None, b"8"]
    assert again.last() == 10
    with pytest.raises(JournalError, match="position 7 is missing"):
        list(again.read(7, 10))
    with pytest.raises(PositionTakenError):
        again.append(5, b"of an engine that was fenced there")
    again.append(11, b"11")
    assert list(opened().read(8, 11)) == [b"8", b"9", b"10", b"11"]


def test_a_second_opener_fences_the_first_for_good(opened: Opener, tmp_path: Path) -> None:
    first = Head(opened(), tmp_path / "a")
    first.disk.write_atomic(first.store / "x", b"kept")
    second = Head(opened(), tmp_path / "b")
    assert second.files() == {"x": b"kept"}
    for _ in range(2):
        with pytest.raises(FencedError, match="epoch 2"):
            first.disk.write_atomic(first.store / "x", b"of a fenced engine")
    second.disk.write_atomic(second.store / "y", b"more")
    second.shipper.close()
    first.shipper.close()
    third = Head(opened(), tmp_path / "c")
    assert third.files() == {"x": b"kept", "y": b"more"}
    assert third.appender.epoch == 3
    third.shipper.close()


def test_a_fenced_engine_learns_of_it_even_if_nothing_is_left_of_what_its_successor_wrote(
    opened: Opener, tmp_path: Path
) -> None:
    first = Appender(opened(), "id", 1, "process 1 on a", 0)
    first.append(RecordKind.TAKEOVER, (), 1)
    second = opened()
    for position in range(2, 10):
        second.append(position, b"of another engine")
    second.trim(9, keep={2})
    with pytest.raises(JournalFencedError):
        first.append(RecordKind.CHANGES, (), 1)
