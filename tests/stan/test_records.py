"""Tests of stan.records."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from pyroaring import BitMap64

from headwater.errors import FencedError, NewerFormatError
from headwater.stan import records
from headwater.stan.clients import Client
from headwater.stan.flow import ChannelFlow
from headwater.stan.records import FlowRow, Records, RecordsError, SubscriptionRow
from headwater.stan.subscription import FlowKey, SharedFlow, StanSubscription
from rounds import choose_seed

ME = Client("me", "hb", b"\x00\xff", 1, 5, 3)


def a_flow(number: int, key: FlowKey, *pending: int) -> SharedFlow:
    return SharedFlow(number, key, ChannelFlow(9, pending))


def test_everything_reads_back_after_a_restart(tmp_path: Path) -> None:
    plain = a_flow(1, FlowKey("foo", "me", number=1), 3, 7)
    group = a_flow(2, FlowKey("foo", "", "dur", "g"))
    kept = Records(tmp_path / "stan.db")
    kept.write(
        [
            records.keep("cluster_id", "c"),
            records.add_client(ME),
            records.add_channel("foo", "identity"),
            records.add_flow(plain),
            records.add_flow(group),
            records.add_subscription(StanSubscription(5, "me", "in", "ack", 10, 30, plain)),
        ]
    )
    kept.close()
    kept = Records(tmp_path / "stan.db")
    assert kept.server() == {"cluster_id": "c"}
    assert kept.clients() == [ME]
    assert kept.channels() == {"foo": "identity"}
    assert kept.flows() == [
        FlowRow(1, plain.key, 9, BitMap64([3, 7])),
        FlowRow(2, group.key, 9, BitMap64()),
    ]
    assert kept.subscriptions() == [SubscriptionRow(5, 1, "me", "in", "ack", 10, 30)]


def test_a_flow_takes_its_subscriptions_with_it(tmp_path: Path) -> None:
    flow = a_flow(1, FlowKey("foo", "me", "dur"))
    kept = Records(tmp_path / "stan.db")
    kept.write(
        [records.add_flow(flow), records.add_subscription(StanSubscription(2, "me", "i", "a", 1, 1, flow))]
    )
    kept.write([records.remove_flow(1)])
    assert (kept.flows(), kept.subscriptions()) == ([], [])


def test_what_is_removed_is_gone_and_what_moves_moves(tmp_path: Path) -> None:
    flow = a_flow(1, FlowKey("foo", "me", "dur"))
    kept = Records(tmp_path / "stan.db")
    kept.write([records.add_client(ME), records.add_channel("foo", "x"), records.add_flow(flow)])
    kept.write([records.add_subscription(StanSubscription(2, "me", "i", "a", 1, 1, flow))])
    flow.flow.last_sent = 12
    kept.write([records.move_flow(flow), records.remove_subscription(2)])
    kept.write([records.remove_client("me"), records.remove_channel("foo")])
    assert (kept.clients(), kept.channels(), kept.subscriptions()) == ([], {}, [])
    assert [row.last_sent for row in kept.flows()] == [12]


def test_changes_are_made_all_or_none(tmp_path: Path) -> None:
    kept = Records(tmp_path / "stan.db")
    with pytest.raises(sqlite3.Error):
        kept.write([records.add_client(ME), ("no statement", ())])
    assert kept.clients() == []


def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    kept = Records(tmp_path / "stan.db")
    kept.write([("PRAGMA user_version=99", ())])
    kept.close()
    with pytest.raises(NewerFormatError, match="newer release"):
        Records(tmp_path / "stan.db")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stan.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(RecordsError, match="cannot be opened"):
        Records(tmp_path / "stan.db")


class Later:
    """Owners of a store, one after the other."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def check(self) -> None:
        """Return: the files are to find out by themselves."""


def test_an_owner_that_was_fenced_changes_nothing(tmp_path: Path) -> None:
    old = Records(tmp_path / "stan.db", Later(1))
    old.write([records.keep("a", "old")])
    new = Records(tmp_path / "stan.db", Later(2))
    new.write([records.keep("a", "new")])
    with pytest.raises(FencedError, match="epoch 2"):
        old.write([records.keep("a", "old again")])
    assert old.server() == new.server() == {"a": "new"}
    old.close()
    new.close()


def test_a_file_of_version_0_1_0_gets_checksums(tmp_path: Path) -> None:
    path = tmp_path / "stan.db"
    with sqlite3.connect(path) as db:
        for statement in records._SCHEMA:
            db.execute(statement)
        db.execute("INSERT INTO channels VALUES ('foo', 'identity')")
        db.execute("PRAGMA user_version = 1")
    kept = Records(path)
    assert kept.channels() == {"foo": "identity"}
    kept.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE channels SET identity = 'another'")
    with pytest.raises(RecordsError, match=r"a row of channels \('foo'\) does not match.*store repair"):
        Records(path)


def test_a_flipped_bit_anywhere_is_found_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stan.db"
    kept = Records(path)
    flow = a_flow(1, FlowKey("foo", "me", "dur"), 3, 7)
    kept.write([records.add_client(ME), records.add_channel("foo", "x"), records.add_flow(flow)])
    kept.write(
        [records.add_subscription(StanSubscription(2, "me", "i", "a", 1, 1, flow)), records.keep("k", "v")]
    )
    flow.flow.last_sent = 12
    kept.write([records.move_flow(flow)])
    expected = _content(kept)
    kept.close()
    whole = path.read_bytes()
    seed = choose_seed()
    chance = random.Random(seed)
    used = [at for at, byte in enumerate(whole) if byte or at < 100]
    silent = []
    for at in sorted({*range(100), *chance.sample(used, min(500, len(used)))}):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        for rest in ("stan.db-wal", "stan.db-shm"):
            (tmp_path / rest).unlink(missing_ok=True)
        try:
            kept = Records(path)
        except (RecordsError, NewerFormatError):
            continue
        if _content(kept) != expected:
            silent.append(at)
        kept.close()
    assert silent == []


def _content(kept: Records) -> object:
    return kept.server(), kept.clients(), kept.channels(), kept.flows(), kept.subscriptions()
