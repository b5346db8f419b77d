"""The replicator's requests to its engine over NATS: asking for plans, and committing receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import msgspec

from headwater.bus.connection import Connection, NoRespondersError
from headwater.errors import BusError, Error, SettingsError
from headwater.model.unique import unique_id
from headwater.replication.proof import Prover, UnprovenError
from headwater.replication.work import (
    EXCHANGE_BYTES,
    Committed,
    Plan,
    PlanRequest,
    Receipt,
    SqlChecked,
    check_subject,
    commit_subject,
    decode_committed,
    decode_plan,
    encode,
    plan_subject,
)
from headwater.wire.frames import Frame

T = TypeVar("T")

PLAN_WAIT_S = 10.0
"""The engine answers long before this, with an empty plan if there is nothing to copy."""
COMMIT_WAIT_S = 5.0
"""How long to wait before receipts are sent again: a killed engine never answers. A busy one gives both
requests the same answer."""


class EngineUnreachableError(Error):
    """The engine does not answer; it may be starting, stopped or disconnected."""

    retryable = True


class Exchange:
    """The engine of one store, or one seat of it, asked over a connection."""

    def __init__(
        self,
        connection: Connection,
        store_id: str,
        seat: str = "",
        slots: int = 2,
        task_bytes: Callable[[], int] = lambda: 0,
        secret: Callable[[], bytes] = lambda: b"",
    ) -> None:
        """Ask for an engine's work, for this many slots whose tasks read this many bytes each.

        The secret is the engine's. It is read each time, since an engine may have a new one.
        """
        self._prover = Prover(secret)
        self._slots = slots
        self._task_bytes = task_bytes
        """Returns how many bytes a task may read; 0 if that is not known yet."""
        self._connection = connection
        self._plan = plan_subject(store_id, seat)
        self._commit = commit_subject(store_id, seat)
        self._check = check_subject(store_id, seat)
        self._name = unique_id()
        """This replicator's name, new at each start."""
        self._asking: set[asyncio.Task[Frame]] = set()
        """Requests without an answer yet."""
        self._why = ""
        """Why open requests were interrupted."""

    def interrupt(self, why: str = "the connection broke") -> None:
        """Give up the open requests: for this reason there will be no answer."""
        self._why = why
        for asking in self._asking:
            asking.cancel()

    async def plan(self, under_way: Collection[str] = ()) -> Plan:
        """Return the ranges to copy, once there are some or the engine has waited for a while.

        The request names the ranges in progress. Others that were handed out are lost, and are planned
        again.
        """
        request = PlanRequest(
            name=self._name,
            under_way=tuple(under_way),
            slots=self._slots,
            task_bytes=self._task_bytes(),
            has_sql=True,
        )
        return _decoded(decode_plan, await self.ask(self._plan, encode(request), PLAN_WAIT_S))

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Return the engine's results for receipts that fit into one message."""
        return _decoded(decode_committed, await self.ask(self._commit, encode(list(receipts)), COMMIT_WAIT_S))

    async def checked(self, results: Sequence[SqlChecked]) -> None:
        """Return once the engine has what Spark says of SQL."""
        await self.ask(self._check, encode(list(results)), COMMIT_WAIT_S)

    async def ask(self, subject: str, body: bytes, wait_s: float) -> bytes:
        """Return the answer's body; ask again if the request had an outdated run of the engine."""
        try:
            try:
                return self._prover.answer(*await self._exchanged(subject, body, wait_s))
            except UnprovenError as error:
                if not error.is_refusal:
                    raise
            return self._prover.answer(*await self._exchanged(subject, body, wait_s))
        except (UnprovenError, SettingsError) as error:
            raise EngineUnreachableError(f"{subject}: {error}") from None

    async def _exchanged(self, subject: str, body: bytes, wait_s: float) -> tuple[bytes, bytes]:
        """Return a request as it was sent, and its answer."""
        if not self._connection.connected:
            raise EngineUnreachableError("not connected to its nats-server")
        asked: list[bytes] = []

        def request(reply: bytes) -> bytes:
            asked.append(self._prover.request(subject.encode(), reply, body))
            return asked[0]

        asking = asyncio.create_task(self._connection.request(subject.encode(), request, wait_s))
        self._asking.add(asking)
        try:
            await asyncio.wait({asking})
            if asking.cancelled():
                raise EngineUnreachableError(self._why)
            return asked[0], asking.result()[3]
        except NoRespondersError:
            raise EngineUnreachableError(f"no engine answers on {subject}") from None
        except TimeoutError:
            raise EngineUnreachableError(f"no answer on {subject} within {wait_s:g} s") from None
        except BusError as error:
            raise EngineUnreachableError(error.problem) from None
        finally:
            self._asking.discard(asking)
            asking.cancel()


def portions(receipts: Sequence[Receipt], limit: int = EXCHANGE_BYTES) -> Iterator[list[Receipt]]:
    """Yield the receipts in order, as many at a time as fit into one message."""
    portion: list[Receipt] = []
    size = 0
    for receipt in receipts:
        length = len(encode([receipt]))
        if portion and size + length > limit:
            yield portion
            portion, size = [], 0
        portion.append(receipt)
        size += length
    if portion:
        yield portion


def _decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        raise EngineUnreachableError(f"cannot decode the engine's answer: {error}") from None
