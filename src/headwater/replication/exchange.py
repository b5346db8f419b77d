"""What a replicator says to its engine over NATS: it asks for a plan, and hands in receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.errors import Error
from headwater.model.unique import unique_id
from headwater.replication.work import (
    EXCHANGE_BYTES,
    Committed,
    Plan,
    Receipt,
    commit_subject,
    decode_committed,
    decode_plan,
    encode,
    plan_subject,
)

T = TypeVar("T")

PLAN_WAIT_S = 20.0
"""The engine answers long before that, with an empty plan if there is nothing to copy."""
COMMIT_WAIT_S = 120.0


class EngineAwayError(Error):
    """The engine does not answer; it may be starting, or stopped, or cut off."""

    retryable = True


class Exchange:
    """The engine of one store, asked over a connected client."""

    def __init__(self, client: Client, store_id: str) -> None:
        self._client = client
        self._plan = plan_subject(store_id)
        self._commit = commit_subject(store_id)
        self._name = unique_id().encode()
        self._asking: asyncio.Task[Msg] | None = None

    def interrupt(self) -> None:
        """Give up the question that is open: the connection that would bring its answer is lost."""
        if self._asking is not None:
            self._asking.cancel()

    async def plan(self) -> Plan:
        """Return what there is to copy, once there is something or the engine has waited for a while.

        Who asks has nothing under way: a plan that was lost is told by its name, and planned again.
        """
        return _decoded(decode_plan, await self._ask(self._plan, self._name, PLAN_WAIT_S))

    async def commit(self, receipts: Sequence[Receipt]) -> Committed:
        """Return the engine's word on receipts that fit into one message."""
        return _decoded(
            decode_committed, await self._ask(self._commit, encode(list(receipts)), COMMIT_WAIT_S)
        )

    async def _ask(self, subject: str, body: bytes, wait_s: float) -> bytes:
        self._asking = asking = asyncio.create_task(self._client.request(subject, body, timeout=wait_s))
        try:
            await asyncio.wait({asking})
            if asking.cancelled():
                raise EngineAwayError("the connection broke")
            return asking.result().data
        except nats.errors.NoRespondersError:
            raise EngineAwayError(f"no engine answers on {subject}") from None
        except nats.errors.TimeoutError:
            raise EngineAwayError(f"no answer on {subject} within {wait_s:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise EngineAwayError(f"the connection broke: {error}") from None
        finally:
            asking.cancel()


def portions(receipts: Sequence[Receipt], limit: int = EXCHANGE_BYTES) -> Iterator[list[Receipt]]:
    """Yield the receipts in order, as many at a time as one message takes."""
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
        raise EngineAwayError(f"the engine's answer is not understood: {error}") from None
