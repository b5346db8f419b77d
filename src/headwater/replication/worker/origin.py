"""Reads a range of a stream through its JetStream API, of a nats-server or of another Headwater.

There are two ways; if one is unavailable the other is used. A hidden push consumer, as nats-server creates
for its own sources, costs the origin least per message, so long ranges use it. Batches of direct gets leave
nothing to remove, so short ranges use them. A follower or a mirror may answer those, however, and may be
behind. Either way, the origin itself is asked at the end whether there is more, so that a lagging replica
cannot end a range early. Streams that remove acknowledged messages are read a third way, through a durable
consumer that the engine has created there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pyroaring import BitMap64

from headwater.bus.options import ConnectOptions
from headwater.errors import BusError
from headwater.model.columns import columns_of
from headwater.model.times import parse_time
from headwater.model.upstream import hash8
from headwater.replication import handover
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, NoResponderError, UnsuitableError
from headwater.replication.worker.direct_reader import DirectReader
from headwater.replication.worker.lost_end import check_covered
from headwater.replication.worker.pull_reader import PullReader
from headwater.replication.worker.push_reader import PushReader
from headwater.table.arrow_tables import rows_of
from headwater.table.rows import Rows

NO_MESSAGE_FOUND = 10037
FEW = 2_000
"""A range of up to this many sequences is read by direct gets; a consumer pays off for more."""


class OriginReader:
    """Yields the messages of a range within the limits; `through` is the last covered sequence."""

    def __init__(self, origin: NatsOrigin, start_seq: int, stop_seq: int, filters: tuple[str, ...]) -> None:
        self.through = start_seq - 1
        """Up to where everything that is wanted was yielded."""
        self._origin = origin
        self._stop_seq = stop_seq
        self._filters = () if ">" in filters else filters
        self._messages_left = origin.max_messages
        self._bytes_left = origin.max_bytes
        self.settled = BitMap64()
        """What may be acknowledged at the origin once all of this is committed."""
        self.ack_key = ""
        """The beginning of the ack subjects; empty if nothing must be acknowledged."""
        self._seen_ts = 0
        """The latest time of a yielded message."""

    @property
    def latest_ts(self) -> int:
        """Return the latest time of everything up to `through`; 0 if unknown."""
        at_end = self.through >= self._stop_seq
        if at_end and not self._origin.stop_ts and not self._origin.durable:
            return 0  # a message that no filter selects may be later
        return max(self._seen_ts, self._origin.covered_ts, self._origin.stop_ts if at_end else 0)

    def __iter__(self) -> Iterator[Rows]:
        for rows in self._ranged():
            self._seen_ts = max(self._seen_ts, int(rows.ts.max())) if len(rows) else self._seen_ts
            yield rows

    def _ranged(self) -> Iterator[Rows]:
        with BlockingClient(connect_options(self._origin)) as client:
            info = self._info_if_shown(client)
            if info is not None:
                self._check(info)
            if self._origin.durable:
                yield from self._pull(client)
                return
            if info is None:
                yield from self._read(client, direct=False)
                check_covered(client, self._origin)
                return
            # If deliveries are exported, so is what they need. Of the other API that is unknown.
            direct = bool(info["config"].get("allow_direct")) and not self._origin.deliver
            yield from self._read(client, direct=direct)
            check_covered(client, self._origin)
            if self._info(client)["created"] != info["created"]:
                raise BusError(f"stream {self._origin.stream!r} was re-created while it was read")

    def _info_if_shown(self, client: BlockingClient) -> dict[str, Any] | None:
        """Return the origin's info, or None if its account exports only what sources need."""
        try:
            return self._info(client)
        except NoResponderError:
            if not self._origin.deliver:
                raise
            return None

    def _read(self, client: BlockingClient, *, direct: bool) -> Iterator[Rows]:
        """Yield the range, one way and then the other if the first one ends too early."""
        problem: BusError | None = None
        for reader in self._readers(client, direct=direct):
            try:
                for rows in reader.read(self.through + 1, self._stop_seq):
                    if (wanted := self._bounded(rows)) is not None:
                        yield wanted
                    if self._is_full or self.through >= self._stop_seq:
                        return
            except UnsuitableError as error:
                # An operator can fix what a consumer lacks, so report that error.
                problem = error if problem is None or isinstance(reader, PushReader) else problem
                continue
            finally:
                reader.close()
            problem = None
            if not self._has_more(client):
                self.through = self._stop_seq
                return
        if problem is not None:
            raise problem

    def _readers(self, client: BlockingClient, *, direct: bool) -> Sequence[DirectReader | PushReader]:
        """Return the readers for the range, the best first."""
        push = PushReader(client, self._origin, self._filters, is_only=not direct)
        if not direct:
            return (push,)
        gets = DirectReader(client, self._origin, self._filters)
        is_short = min(self._stop_seq - self.through, self._messages_left) <= FEW
        return (gets, push) if is_short else (push, gets)

    def _pull(self, client: BlockingClient) -> Iterator[Rows]:
        """Yield what the consumer delivers; only it knows what there is, so `through` is its last message."""
        reader = PullReader(client, self._origin, self._filters, self.through + 1)
        for messages in reader.read():
            yield rows_of(columns_of(messages))
        self.through, self.settled, self.ack_key = reader.through, reader.settled, reader.ack_key

    @property
    def _is_full(self) -> bool:
        return self._messages_left <= 0 or self._bytes_left <= 0

    def _bounded(self, rows: Rows) -> Rows | None:
        """Return the rows within the range and the limits; at least the first, so that there is progress."""
        seqs, sizes = rows.seqs, rows.sizes
        inside = int(np.searchsorted(seqs, self._stop_seq, side="right"))
        # As many as fit; the last one may exceed the limit.
        fitting = int(np.searchsorted(np.cumsum(sizes) - sizes, self._bytes_left))
        count = min(inside, fitting, self._messages_left)
        self._messages_left -= count
        self._bytes_left -= int(sizes[:count].sum())
        is_past = count == inside < len(rows)
        self.through = self._stop_seq if is_past else int(seqs[count - 1]) if count else self.through
        return rows if count == len(rows) else rows.slice(0, count) if count else None

    def _has_more(self, client: BlockingClient) -> bool:
        """Ask the origin itself for a message between what was read and the end of the range."""
        if self.through >= self._stop_seq:
            return False
        subject = f"{self._origin.api_prefix}.STREAM.MSG.GET.{self._origin.stream}"
        for pattern in self._filters or (">",):
            try:
                answer = client.request(subject, {"seq": self.through + 1, "next_by_subj": pattern})
            except NoResponderError:
                if self._origin.deliver:  # the consumer reported that nothing is pending
                    return False
                raise
            error = answer.get("error")
            if error and error.get("err_code") != NO_MESSAGE_FOUND:
                raise BusError(f"{subject}: {error.get('description')}")
            if not error and answer["message"]["seq"] <= self._stop_seq:
                return True
        return False

    def _info(self, client: BlockingClient) -> dict[str, Any]:
        subject = f"{self._origin.api_prefix}.STREAM.INFO.{self._origin.stream}"
        answer = client.request(subject)
        if error := answer.get("error"):
            raise BusError(f"stream {self._origin.stream!r}: {error.get('description')}")
        return answer

    def _check(self, info: dict[str, Any]) -> None:
        retention = info["config"].get("retention", "limits")
        if retention != self._origin.retention:
            raise BusError(
                f"stream {self._origin.stream!r} has {retention} retention since its range was planned"
            )
        if self._origin.identity and identity_of(info["created"]) != self._origin.identity:
            raise BusError(f"stream {self._origin.stream!r} was re-created since its range was planned")


def identity_of(created: str) -> str:
    """Return a stream's identity, computed from its creation time as nats-server does."""
    return hash8(created) if parse_time(created) else ""


def connect_options(origin: NatsOrigin) -> ConnectOptions:
    """Return the connect options of an origin."""
    if origin.config:
        return handover.connect_options(origin.config, origin.seat, "headwater transfer")
    return ConnectOptions(
        servers=origin.servers,
        name="headwater transfer",
        user=origin.user,
        password=origin.password,
        token=origin.token,
        nkey_file=origin.nkey_file,
        creds_file=origin.creds_file,
        tls_ca=origin.tls_ca,
        tls_cert=origin.tls_cert,
        tls_key=origin.tls_key,
    )
