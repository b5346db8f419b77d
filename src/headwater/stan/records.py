"""What must outlive the engine: clients, subscriptions and how far each has come, in one sqlite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from headwater.control.sqlite_file import open_database
from headwater.errors import Error, FencedError, NewerFormatError
from headwater.fence import NO_FENCE, Fence
from headwater.stan.clients import Client
from headwater.stan.subscription import FlowKey, SharedFlow, Subscription

VERSION = 1
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
    # A channel that is made anew after its stream was deleted has other messages: old positions say nothing.
    "CREATE TABLE channels (channel TEXT PRIMARY KEY, identity TEXT NOT NULL)",
)

Op = tuple[str, tuple[object, ...]]
"""One change of the records: a statement with its values."""


class RecordsError(Error):
    """The records cannot be used, and the message says why."""


def add_client(client: Client) -> Op:
    """Keep a client."""
    values = (
        client.client_id,
        client.heartbeat_inbox,
        client.conn_id,
        client.protocol,
        client.ping_interval,
        client.ping_max_out,
    )
    return "INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?, ?)", values


def remove_client(client_id: str) -> Op:
    """Forget a client."""
    return "DELETE FROM clients WHERE client_id = ?", (client_id,)


def add_flow(shared: SharedFlow) -> Op:
    """Keep a flow, or replace it as it stood."""
    key = shared.key
    values = (shared.number, key.channel, key.client_id, key.durable, key.group, *_standing(shared))
    return "INSERT INTO flows VALUES (?, ?, ?, ?, ?, ?, ?)", values


def move_flow(shared: SharedFlow) -> Op:
    """Keep how far a flow has come."""
    last_sent, pending = _standing(shared)
    return "UPDATE flows SET last_sent = ?, pending = ? WHERE number = ?", (last_sent, pending, shared.number)


def _standing(shared: SharedFlow) -> tuple[int, bytes]:
    return shared.flow.last_sent, shared.flow.pending.serialize()


def remove_flow(number: int) -> Op:
    """Forget a flow with its subscriptions."""
    return "DELETE FROM flows WHERE number = ?", (number,)


def add_subscription(subscription: Subscription) -> Op:
    """Keep a subscription."""
    values = (
        subscription.number,
        subscription.shared.number,
        subscription.client_id,
        subscription.inbox,
        subscription.ack_inbox,
        subscription.max_in_flight,
        subscription.ack_wait_s,
    )
    return "INSERT INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?)", values


def remove_subscription(number: int) -> Op:
    """Forget a subscription."""
    return "DELETE FROM subscriptions WHERE number = ?", (number,)


def add_channel(channel: str, identity: str) -> Op:
    """Keep which stream a channel is, so that another of its name is not taken for it."""
    return "INSERT OR REPLACE INTO channels VALUES (?, ?)", (channel, identity)


def remove_channel(channel: str) -> Op:
    """Forget a channel."""
    return "DELETE FROM channels WHERE channel = ?", (channel,)


def keep(key: str, value: str) -> Op:
    """Keep something about the server."""
    return "INSERT OR REPLACE INTO server VALUES (?, ?)", (key, value)


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow as it was recorded."""

    number: int
    key: FlowKey
    last_sent: int
    pending: BitMap64


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription as it was recorded."""

    number: int
    flow: int
    client_id: str
    inbox: str
    ack_inbox: str
    max_in_flight: int
    ack_wait_s: int


class Records:
    """The file; what was written is durable when `write` returns. Safe on any thread."""

    def __init__(self, path: Path, fence: Fence = NO_FENCE) -> None:
        self._path = path
        self._fence = fence
        self._lock = threading.Lock()
        try:
            self._db = open_database(path)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self.write(
                    [*((statement, ()) for statement in _SCHEMA), (f"PRAGMA user_version={VERSION}", ())]
                )
        except sqlite3.Error as error:
            raise RecordsError(f"{path} cannot be opened: {error}") from error
        if version > VERSION:
            self._db.close()
            raise NewerFormatError(f"{path}", version, VERSION)

    def write(self, ops: Iterable[Op]) -> None:
        """Make changes, all of them or none."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in ops:
                    self._db.execute(statement, values)
                self._own()
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        self._fence.check()

    def _own(self) -> None:
        """Leave our epoch in the file with every change; refuse one once a later owner has left its own."""
        ours = self._fence.epoch
        if not ours:
            return
        found = self._db.execute("SELECT value FROM server WHERE key = ?", (_EPOCH,)).fetchone()
        theirs = int(found[0]) if found else 0
        if theirs > ours:
            self._fence.check()
            raise FencedError(self._path.parent, ours, f"{self._path} has epoch {theirs}")
        if theirs < ours:
            self._db.execute("INSERT OR REPLACE INTO server VALUES (?, ?)", (_EPOCH, str(ours)))

    def server(self) -> dict[str, str]:
        """Return what is kept about the server."""
        return dict(self._read("SELECT key, value FROM server WHERE key != ?", (_EPOCH,)))

    def clients(self) -> list[Client]:
        """Return the clients."""
        return [Client(*row) for row in self._read("SELECT * FROM clients ORDER BY client_id")]

    def channels(self) -> dict[str, str]:
        """Return the identity of each channel's stream."""
        return dict(self._read("SELECT channel, identity FROM channels"))

    def flows(self) -> list[FlowRow]:
        """Return the flows."""
        return [
            FlowRow(
                number,
                FlowKey(channel, client_id, durable, group, 0 if durable or group else number),
                last_sent,
                BitMap64.deserialize(pending),
            )
            for number, channel, client_id, durable, group, last_sent, pending in self._read(
                "SELECT * FROM flows ORDER BY number"
            )
        ]

    def subscriptions(self) -> list[SubscriptionRow]:
        """Return the subscriptions, oldest first."""
        return [SubscriptionRow(*row) for row in self._read("SELECT * FROM subscriptions ORDER BY number")]

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()
