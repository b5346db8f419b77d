"""A journal in a NATS cluster: which clusters are refused, and one that loses its leader with its disk."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import nats
import pytest

from headwater.bus.options import ConnectOptions
from headwater.journal import shipper
from headwater.journal.head_journal import JournalError, UnfitJournalError
from headwater.journal.jetstream_journal import JetStreamJournal, JetStreamPlace
from journal_cluster import JournalCluster, journal_cluster
from journals import Head, eventually, jetstream_journal


def test_the_address_is_shown_without_credentials() -> None:
    servers = ("nats://me:secret@a:4222", "nats://me:secret@b:4222")
    place = JetStreamPlace(ConnectOptions(servers=servers), "LAKE")
    assert place.address == "nats://a:4222,b:4222/LAKE"


def test_a_server_without_replicas_is_refused_unless_that_is_waived() -> None:
    with journal_cluster(size=1) as single:
        with pytest.raises(UnfitJournalError, match=r"cannot have 3 copies: .* use a NATS cluster of three"):
            jetstream_journal(single.place("LAKE"))
        refused = ConnectOptions(servers=(f"nats://journal:wrong@127.0.0.1:{single.ports[0]}",))
        with pytest.raises(JournalError, match=r"LAKE: its servers refuse the credentials") as wrong:
            JetStreamJournal(JetStreamPlace(refused, "LAKE"))
        assert "wrong" not in str(wrong.value)
        assert "\n" not in str(wrong.value)
        lenient = jetstream_journal(single.place("LAKE", is_lenient=True))
        assert lenient.copies == 1
        lenient.append(1, b"x")
        lenient.close()
        with pytest.raises(UnfitJournalError, match="keeps 1 of 3 copies: raise num_replicas"):
            jetstream_journal(single.place("LAKE"))


def test_servers_that_sync_later_are_refused_unless_that_is_waived() -> None:
    with journal_cluster(size=1, sync="2m") as lazy:
        with pytest.raises(
            UnfitJournalError, match=r"n0 acknowledges before it syncs: set `sync_interval: al"
        ):
            jetstream_journal(lazy.place("LAKE"))
        jetstream_journal(lazy.place("LAKE", is_lenient=True)).close()


def test_servers_that_do_not_say_how_they_sync_are_refused() -> None:
    with (
        journal_cluster(size=1, asks=False) as silent,
        pytest.raises(UnfitJournalError, match="does not report how its servers sync: import"),
    ):
        jetstream_journal(silent.place("LAKE"))


def test_servers_that_take_small_messages_only_are_refused() -> None:
    with (
        journal_cluster(size=1, more="max_payload: 65536") as small,
        pytest.raises(
            UnfitJournalError, match="accept messages of at most 65536 bytes: set `max_payload: 1MB`"
        ),
    ):
        jetstream_journal(small.place("LAKE", is_lenient=True))


def test_a_cluster_that_is_away_is_not_an_empty_journal() -> None:
    with journal_cluster(size=1) as away:
        place = away.place("LAKE", is_lenient=True)
        journal = jetstream_journal(place)
        away.kill(0)
        for call in (lambda: journal.append(1, b"x"), lambda: journal.last(), lambda: journal.get(1)):
            with pytest.raises(JournalError):
                call()
        with pytest.raises(JournalError):
            JetStreamJournal(place)
        journal.close()


def test_a_journal_outlives_its_leader_with_its_disk(tmp_path: Path) -> None:
    with journal_cluster() as cluster:
        place = cluster.place(uuid4().hex)
        first = Head(jetstream_journal(place), tmp_path / "a")
        for number in range(20):
            first.disk.write_atomic(first.store / f"before-{number}", b"%d" % number)
        cluster.kill(asyncio.run(cluster.leader(place)), with_disk=True)
        for number in range(20):
            path = first.store / f"after-{number}"
            eventually(lambda path=path, number=number: first.disk.write_atomic(path, b"%d" % number))
        assert not first.lost
        second = Head(jetstream_journal(place), tmp_path / "b")
        assert second.files() == first.files()
        assert len(second.files()) == 40
        second.shipper.close()
        first.shipper.close()


def test_two_journals_of_one_cluster_do_not_mix(journal_servers: JournalCluster) -> None:
    one, other = (jetstream_journal(journal_servers.place(uuid4().hex)) for _ in range(2))
    one.append(1, b"one")
    other.append(1, b"other")
    assert (one.get(1), other.get(1)) == (b"one", b"other")
    one.close()
    other.close()


def test_a_full_stream_is_trimmed_and_takes_records_again(tmp_path: Path) -> None:
    with journal_cluster(size=1) as single:
        place = single.place("LAKE", is_lenient=True)
        head = Head(jetstream_journal(place), tmp_path / "a")
        asyncio.run(changed(place, "STREAM.UPDATE", {"max_bytes": 1 << 20}))
        for number in range(30):
            head.disk.write_atomic(head.store / "x", bytes([number]) * 100_000)
        assert not head.lost
        head.shipper.close()
        assert Head(jetstream_journal(place), tmp_path / "b").files()["x"] == bytes([29]) * 100_000


def test_a_stream_that_was_purged_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "LOOK_S", 0.02)
    with journal_cluster(size=1) as single:
        place = single.place("LAKE", is_lenient=True)
        head = Head(jetstream_journal(place), tmp_path / "a")
        for name in ("x", "y"):
            head.disk.write_atomic(head.store / name, name.encode())
        asyncio.run(changed(place, "STREAM.PURGE", {}))

        journal = jetstream_journal(place)
        found: list[Head] = []
        eventually(lambda: found.append(Head(journal, tmp_path / "b")))
        assert found[0].files() == {"x": b"x", "y": b"y"}


def test_a_stream_that_was_deleted_is_not_replaced_by_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with journal_cluster(size=1) as single:
        place = single.place("LAKE", is_lenient=True)
        head = Head(jetstream_journal(place), tmp_path / "a")
        head.disk.write_atomic(head.store / "x", b"1")
        asyncio.run(changed(place, "STREAM.DELETE", {}))
        with pytest.raises(UnfitJournalError, match="the stream HEADWATER_JOURNAL_LAKE does not exist"):
            JetStreamJournal(replace(place, is_known=True))
        monkeypatch.setattr(shipper, "PATIENCE_S", 0.5)
        with pytest.raises(JournalError):
            head.disk.write_atomic(head.store / "x", b"2")
        jetstream_journal(place).close()  # somebody creates the stream
        monkeypatch.setattr(shipper, "PATIENCE_S", 20)
        with pytest.raises(JournalError, match=r"its last record is 0, but [0-9]+ was written"):
            head.disk.write_atomic(head.store / "x", b"3")


async def changed(place: JetStreamPlace, request: str, change: dict[str, Any]) -> None:
    """Do to the stream of a journal what its administrator may do."""
    client = await nats.connect(place.options.servers[0])
    try:
        found = json.loads((await client.request(f"$JS.API.STREAM.INFO.{place.stream}", timeout=60)).data)
        body = {**found["config"], **change} if change else {}
        answer = await client.request(f"$JS.API.{request}.{place.stream}", json.dumps(body).encode(), 60)
        assert "error" not in json.loads(answer.data), answer.data
    finally:
        await client.close()
