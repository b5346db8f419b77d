"""A range of a stream read through its JetStream API, be it of a nats-server or of another Headwater.

Two ways, each where the other is closed. A hidden push consumer, as nats-server makes one for its own
sources, costs the origin least for each message: so long ranges are read. Batches of direct gets leave
nothing to be removed: so short ones are; a follower or a mirror may answer them, though, which may be
behind. Whichever way was taken, the origin itself is asked in the end whether there was more, so that
"nothing more" is never said by somebody who had not heard of it yet. Streams that let go of what is
acknowledged are read a third way, through a durable consumer that the engine has made there.
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
from headwater.table.parquet import rows_of
from headwater.table.rows import Rows

NO_MESSAGE_FOUND = 10037
FEW = 2_000
"""A range of so many sequences is read by direct gets; for more it pays to make a consumer."""


class OriginReader:
    """Yields the messages of a range, as many as the bounds allow; `through` tells how far that was."""

    def __init__(self, origin: NatsOrigin, start_seq: int, stop_seq: int, filters: tuple[str, ...]) -> None:
        self.through = start_seq - 1
        self._origin = origin
        self._stop_seq = stop_seq
        self._filters = () if ">" in filters else filters
        self._messages_left = origin.max_messages
        self._bytes_left = origin.max_bytes
        self.settled = BitMap64()
        """What may be acknowledged at the origin once all this is committed."""
        self.ack_key = ""
        self._seen_ts = 0

    @property
    def latest_ts(self) -> int:
        """Return the latest time of everything up to `through`, 0 where that is not known."""
        at_end = self.through >= self._stop_seq
        if at_end and not self._origin.stop_ts and not self._origin.durable:
            return 0  # what no filter takes may be later than all that was read
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
            # Where deliveries are exported, so is what they need; of the rest that is not known.
            direct = bool(info["config"].get("allow_direct")) and not self._origin.deliver
            yield from self._read(client, direct=direct)
            check_covered(client, self._origin)
            if self._info(client)["created"] != info["created"]:
                raise BusError(f"stream {self._origin.stream!r} was made anew while it was read")

    def _info_if_shown(self, client: BlockingClient) -> dict[str, Any] | None:
        """Return the origin's info, or nothing where its account exports only what sources need."""
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
                # What a consumer lacks, somebody can mend.
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
        """Return what can read the range, the best first."""
        push = PushReader(client, self._origin, self._filters, is_only=not direct)
        if not direct:
            return (push,)
        gets = DirectReader(client, self._origin, self._filters)
        is_short = min(self._stop_seq - self.through, self._messages_left) <= FEW
        return (gets, push) if is_short else (push, gets)

    def _pull(self, client: BlockingClient) -> Iterator[Rows]:
        """Yield what the origin's consumer has; only it says what there is, so `through` is the last one."""
        reader = PullReader(client, self._origin, self._filters, self.through + 1)
        for messages in reader.read():
            yield rows_of(columns_of(messages))
        self.through, self.settled, self.ack_key = reader.through, reader.settled, reader.ack_key

    @property
    def _is_full(self) -> bool:
        return self._messages_left <= 0 or self._bytes_left <= 0

    def _bounded(self, rows: Rows) -> Rows | None:
        """Return those within the range and the bounds; the first one always, so that there is progress."""
        seqs, sizes = rows.seqs, rows.sizes
        inside = int(np.searchsorted(seqs, self._stop_seq, side="right"))
        # As many as there is room for, the last of which may be larger than what is left.
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
                if self._origin.deliver:  # the consumer has said that nothing is pending
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
            raise BusError(f"stream {self._origin.stream!r} was made anew since its range was planned")


def identity_of(created: str) -> str:
    """Return what tells a stream from others of its name, as nats-server makes it from when it was made."""
    return hash8(created) if parse_time(created) else ""


def connect_options(origin: NatsOrigin) -> ConnectOptions:
    """Return how an origin is connected to."""
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
