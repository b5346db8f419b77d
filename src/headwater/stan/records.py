"""The persistent state of NATS Streaming: clients, subscriptions and their positions, in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from headwater.control.open_mark import OpenMark
from headwater.control.sqlite_file import NO_REPLICA, Replica, open_database
from headwater.control.summed_tables import Op, SummedTables, row_sum
from headwater.errors import Error, FencedError, NewerFormatError
from headwater.fence import NO_FENCE, Fence, check_committed
from headwater.stan.clients import Client
from headwater.stan.subscription import FlowKey, SharedFlow, StanSubscription

VERSION = 2
"""Version 1 has no checksums."""
_EPOCH = "epoch"
_SCHEMA = (
    "CREATE TABLE server (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE clients (
        client_id TEXT PRIMARY KEY, heartbeat_inbox TEXT NOT NULL, conn_id BLOB NOT NULL,
        protocol INTEGER NOT NULL, ping_interval INTEGER NOT NULL, ping_max_out INTEGER NOT NULL)""",
    """CREATE TABLE flows (
        number INTEGER PRIMARY KEY, channel TEXT NOT NULL, client_id TEXT NOT NULL, durable TEXT NOT NULL,
        queue_group TEXT NOT NULL, last_sent INTEGER NOT NULL, pending BLOB NOT NULL)""",
    """CREATE TABLE subscriptions (
        number INTEGER PRIMARY KEY, flow INTEGER NOT NULL REFERENCES flows (number) ON DELETE CASCADE,
        client_id TEXT NOT NULL, inbox TEXT NOT NULL, ack_inbox TEXT NOT NULL,
        max_in_flight INTEGER NOT NULL, ack_wait_s INTEGER NOT NULL)""",
    # A channel that is re-created after its stream was deleted has other messages: old positions are void.
    "CREATE TABLE channels (channel TEXT PRIMARY KEY, identity TEXT NOT NULL)",
)

_TABLES = SummedTables(
    {
        "server": "key, value",
        "clients": "client_id, heartbeat_inbox, conn_id, protocol, ping_interval, ping_max_out",
        "flows": "number, channel, client_id, durable, queue_group, last_sent, pending",
        "subscriptions": "number, flow, client_id, inbox, ack_inbox, max_in_flight, ack_wait_s",
        "channels": "channel, identity",
    }
)
_CHECKSUMS = tuple(
    f"ALTER TABLE {table} ADD COLUMN crc INTEGER NOT NULL DEFAULT 0" for table in _TABLES.columns
)
_REPAIR = "run `headwater store repair` with the engine stopped"


class RecordsError(Error):
    """The records cannot be used; the message gives the reason."""


def add_client(client: Client) -> Op:
    """Record a client."""
    values = (
        client.client_id,
        client.heartbeat_inbox,
        client.conn_id,
        client.protocol,
        client.ping_interval,
        client.ping_max_out,
    )
    return _TABLES.put("clients", values)


def remove_client(client_id: str) -> Op:
    """Remove a client."""
    return "DELETE FROM clients WHERE client_id = ?", (client_id,)


def add_flow(shared: SharedFlow) -> Op:
    """Record a flow, or replace its record."""
    return _TABLES.put("flows", _flow(shared), replace=False)


def move_flow(shared: SharedFlow) -> Op:
    """Record a flow's position."""
    row = _flow(shared)
    values = (*row[-2:], row_sum("flows", row), shared.number)
    return "UPDATE flows SET last_sent = ?, pending = ?, crc = ? WHERE number = ?", values


def _flow(shared: SharedFlow) -> tuple[object, ...]:
    key, flow = shared.key, shared.flow
    pending = flow.pending.serialize()
    return shared.number, key.channel, key.client_id, key.durable, key.group, flow.last_sent, pending


def remove_flow(number: int) -> Op:
    """Remove a flow with its subscriptions."""
    return "DELETE FROM flows WHERE number = ?", (number,)


def add_subscription(subscription: StanSubscription) -> Op:
    """Record a subscription."""
    values = (
        subscription.number,
        subscription.shared.number,
        subscription.client_id,
        subscription.inbox,
        subscription.ack_inbox,
        subscription.max_in_flight,
        subscription.ack_wait_s,
    )
    return _TABLES.put("subscriptions", values, replace=False)


def remove_subscription(number: int) -> Op:
    """Remove a subscription."""
    return "DELETE FROM subscriptions WHERE number = ?", (number,)


def add_channel(channel: str, identity: str) -> Op:
    """Record a channel's stream, to distinguish it from a later one of the same name."""
    return _TABLES.put("channels", (channel, identity))


def remove_channel(channel: str) -> Op:
    """Remove a channel."""
    return "DELETE FROM channels WHERE channel = ?", (channel,)


def keep(key: str, value: str) -> Op:
    """Record a value of the server."""
    return _TABLES.put("server", (key, value))


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A recorded flow."""

    number: int
    key: FlowKey
    last_sent: int
    pending: BitMap64


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A recorded subscription."""

    number: int
    flow: int
    client_id: str
    inbox: str
    ack_inbox: str
    max_in_flight: int
    ack_wait_s: int


class Records:
    """The records file. Changes are durable when `write` returns. Thread-safe."""

    def __init__(self, path: Path, fence: Fence = NO_FENCE, replica: Replica = NO_REPLICA) -> None:
        self._path = path
        self._replica = replica
        self._fence = fence
        self._is_current = False
        """Whether the file has this version's schema."""
        self._lock = threading.Lock()
        self._mark = OpenMark(path)
        try:
            self._db = open_database(path)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self.write([*((statement, ()) for statement in _SCHEMA), ("PRAGMA user_version=1", ())])
            if version <= 1:
                self._sum_up()
            self._is_current = version <= VERSION
            if self._is_current:
                self._check(path)
        except (sqlite3.Error, UnicodeError) as error:
            raise RecordsError(f"{path} cannot be opened: {error}; {_REPAIR}") from error
        if version > VERSION:
            self._db.close()
            raise NewerFormatError(f"{path}", version, VERSION)

    def _sum_up(self) -> None:
        """Add checksums to rows that were written without one."""
        ops: list[Op] = [(statement, ()) for statement in _CHECKSUMS]
        self.write([*ops, *_TABLES.sum_up(self._db), (f"PRAGMA user_version={VERSION}", ())])

    def _check(self, path: Path) -> None:
        """Refuse a file that is inconsistent, or that has a row whose checksum does not match."""
        ((said,),) = self._query("PRAGMA integrity_check(1)")
        broken = self._query("PRAGMA foreign_key_check")
        if said != "ok" or broken:
            raise RecordsError(f"{path} is damaged: {said if said != 'ok' else broken[0]}; {_REPAIR}")
        for table in _TABLES.columns:
            self._rows(table)
        if lost := self._mark.problem(self._epoch()):
            raise RecordsError(f"{path} is not complete: {lost}; {_REPAIR}")

    def write(self, ops: Iterable[Op]) -> None:
        """Apply changes atomically."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in ops:
                    self._db.execute(statement, values)
                self._own()
                self._fence.check()
                self._replica.ship(self._db)
                self._commit()
                self._mark.make(self._fence.epoch)
            except BaseException:
                # SQLite rolls some failed commits back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        check_committed(self._fence)

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._replica.undo()
            raise

    def _own(self) -> None:
        """Write this engine's epoch with every change; refuse if a later owner has written its own."""
        ours = self._fence.epoch
        if not ours or not self._is_current:
            return
        theirs = self._epoch()
        if theirs > ours:
            self._fence.check()
            raise FencedError(self._path.parent, ours, f"{self._path} has epoch {theirs}")
        if theirs < ours:
            self._db.execute(*keep(_EPOCH, str(ours)))

    def _epoch(self) -> int:
        """Return the epoch of the last owner that changed anything here."""
        found = self._db.execute("SELECT value FROM server WHERE key = ?", (_EPOCH,)).fetchone()
        return int(found[0]) if found else 0

    def server(self) -> dict[str, str]:
        """Return the recorded values of the server."""
        return {key: value for key, value in self._rows("server") if key != _EPOCH}

    def clients(self) -> list[Client]:
        """Return the clients."""
        return [Client(*row) for row in self._rows("clients", "ORDER BY client_id")]

    def channels(self) -> dict[str, str]:
        """Return the identity of each channel's stream."""
        return dict(self._rows("channels"))

    def flows(self) -> list[FlowRow]:
        """Return the flows."""
        return [
            FlowRow(
                number,
                FlowKey(channel, client_id, durable, group, 0 if durable or group else number),
                last_sent,
                BitMap64.deserialize(pending),
            )
            for number, channel, client_id, durable, group, last_sent, pending in self._rows(
                "flows", "ORDER BY number"
            )
        ]

    def subscriptions(self) -> list[SubscriptionRow]:
        """Return the subscriptions, oldest first."""
        return [SubscriptionRow(*row) for row in self._rows("subscriptions", "ORDER BY number")]

    def _rows(self, table: str, order: str = "") -> list[tuple[Any, ...]]:
        """Return the rows; raise if a checksum does not match."""
        found = self._query(_TABLES.select(table, order))
        if (damaged := _TABLES.damaged(table, found)) is not None:
            raise RecordsError(f"the checksum of a row of {table} ({damaged[0]!r}) does not match; {_REPAIR}")
        return [tuple(row) for _, *row in found]

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query).fetchall()

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._mark.remove(self._fence.epoch)
            self._db.close()


def drop_damaged(path: Path) -> int:
    """Delete rows whose checksum does not match and rows that depend on them; return how many."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA foreign_keys=ON")
        gone = 0
        for table, columns in _TABLES.columns.items():
            for rowid, crc, *row in db.execute(f"SELECT rowid, crc, {columns} FROM {table}").fetchall():
                if crc != row_sum(table, row):
                    gone += db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,)).rowcount
        left = "DELETE FROM subscriptions WHERE flow NOT IN (SELECT number FROM flows)"
        return gone + db.execute(left).rowcount
    finally:
        db.close()
