"""A journal in a JetStream stream of a NATS cluster: the position of a record is its sequence there.

Appends use the header `Nats-Expected-Last-Sequence`, so that only an engine that knows the last record can
append the next one. Sequences are never reused, not even after a purge.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import msgspec

from headwater.bus.connection import Connection, DeniedError, NoRespondersError
from headwater.bus.options import ConnectOptions
from headwater.errors import BusError, LoginRefusedError
from headwater.journal.head_journal import (
    JournalError,
    JournalPeer,
    MissingJournalError,
    PositionTakenError,
    UnfitJournalError,
)
from headwater.loop_thread import LoopThread

REPLICAS = 3
ANSWER_S = 3.0
LOOK_S = 2.0
"""How long the servers of a cluster may take to say how they sync."""
READERS = 32
LEAST_PAYLOAD = 1_000_000
"""The largest record, with its header, is smaller."""
NO_STREAM, NO_MESSAGE, WRONG_LAST = 10059, 10037, 10071
_SERVERS = b"$SYS.REQ.SERVER.PING.JSZ"
_REMEDY = "or waive it with journal_lenient"

_T = TypeVar("_T")


class _AnswerError(Exception):
    """An error that the API answered."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('description')} ({error.get('err_code')})")
        self.err_code = int(error.get("err_code", 0))


@dataclass(frozen=True)
class JetStreamPlace:
    """Which stream of which cluster holds a journal."""

    options: ConnectOptions
    name: str
    is_lenient: bool = False
    """Accept fewer replicas, and servers that do not sync each write."""
    is_known: bool = False
    """Whether the journal was seen before, so that a stream that is missing was deleted."""
    reads_only: bool = False
    """Never create the stream."""

    @property
    def stream(self) -> str:
        """Return the name of the stream."""
        return f"HEADWATER_JOURNAL_{self.name}"

    @property
    def subject(self) -> bytes:
        """Return the subject on which records are published."""
        return f"headwater.journal.{self.name}".encode()

    @property
    def address(self) -> str:
        """Return the address without credentials."""
        servers = ",".join(server.rpartition("@")[2].rpartition("/")[2] for server in self.options.servers)
        return f"nats://{servers}/{self.name}"


class JetStreamJournal:
    """The records of one stream, which is created if the cluster says that there is none."""

    def __init__(self, place: JetStreamPlace) -> None:
        """Connect and check the stream; raise with one sentence if it cannot hold a store."""
        self._place = place
        self._thread = LoopThread(f"journal {place.name}")
        self._connection: Connection | None = None
        """None until the journal is opened."""
        self._copies = 0
        """How many replicas the stream of the journal has, once it was checked."""
        try:
            self._run("open", self._open())
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return self._place.address

    @property
    def copies(self) -> int:
        return self._copies

    def peers(self) -> list[JournalPeer]:
        info = self._run("read", self._ask(f"STREAM.INFO.{self._place.stream}"))
        return [
            JournalPeer(
                peer["name"],
                bool(peer.get("current")),
                bool(peer.get("offline")),
                int(peer.get("active", 0)),
                int(peer.get("lag", 0)),
            )
            for peer in info.get("cluster", {}).get("replicas", [])
        ]

    def append(self, position: int, record: bytes) -> None:
        self._run("append to", self._append(position, record))

    def get(self, position: int) -> bytes | None:
        return self._run("read", self._get(position))

    def last(self, known: int = 0) -> int:
        return int(self._run("read", self._ask(f"STREAM.INFO.{self._place.stream}"))["state"]["last_seq"])

    def read(self, first: int, last: int) -> Iterator[bytes]:
        positions = iter(range(first, last + 1))
        while chunk := list(islice(positions, READERS)):
            for position, record in zip(chunk, self._run("read", self._get_all(chunk)), strict=True):
                if record is None:
                    raise JournalError(self.address, "read", f"the record at position {position} is missing")
                yield record

    def trim(self, below: int, keep: Collection[int]) -> None:
        # The stream knows its last sequence without any message, so nothing needs to be kept.
        self._run("trim", self._ask(f"STREAM.PURGE.{self._place.stream}", {"seq": below}))

    def close(self) -> None:
        if self._connection is not None:
            self._thread.run(self._connection.close())
        self._thread.stop()

    def _run(self, operation: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what a coroutine returns on the journal's own loop."""
        try:
            return self._thread.run(work)
        except TimeoutError:
            raise JournalError(self.address, operation, "its servers do not answer") from None
        except NoRespondersError:
            raise JournalError(self.address, operation, "no JetStream answers there") from None
        except DeniedError as error:
            raise JournalError(self.address, operation, str(error)) from None
        except _AnswerError as error:
            raise JournalError(self.address, operation, str(error), is_answer=True) from None
        except LoginRefusedError:
            reason = "its servers refuse the credentials"
            raise JournalError(self.address, operation, reason, is_login=True) from None
        except (BusError, OSError) as error:
            raise JournalError(self.address, operation, str(error).partition("\n")[0]) from None

    async def _open(self) -> None:
        connection = Connection(self._place.options)
        await connection.connect()
        self._connection = connection
        if connection.max_payload < LEAST_PAYLOAD:
            raise UnfitJournalError(
                f"the servers of the journal {self.address} accept messages of at most "
                f"{connection.max_payload} bytes: set `max_payload: 1MB` there"
            )
        try:
            info = await self._ask(f"STREAM.INFO.{self._place.stream}")
        except _AnswerError as error:
            if error.err_code != NO_STREAM:
                raise
            if self._place.reads_only:
                raise MissingJournalError(
                    f"the journal {self.address} contains no store: there is no stream {self._place.stream}"
                ) from None
            if self._place.is_known:
                raise UnfitJournalError(
                    f"the journal {self.address} is gone: the stream {self._place.stream} does not exist, "
                    "but this directory belongs to it: check the address, or restore the stream"
                ) from None
            await self._require_sync()
            info = await self._create()
        else:
            await self._require_sync()
        self._copies = int(info["config"]["num_replicas"])
        if self._copies < REPLICAS and not self._place.is_lenient:
            raise UnfitJournalError(
                f"the journal {self.address} keeps {self._copies} of {REPLICAS} copies: raise num_replicas "
                f"of the stream {self._place.stream}, {_REMEDY}"
            )

    async def _create(self) -> dict[str, Any]:
        """Create the stream with three replicas, or with one if that is waived and there are no more."""
        config = {
            "name": self._place.stream,
            "subjects": [self._place.subject.decode()],
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "num_replicas": REPLICAS,
            "deny_delete": True,
        }
        try:
            return await self._ask(f"STREAM.CREATE.{self._place.stream}", config)
        except _AnswerError as error:
            if not self._place.is_lenient:
                raise UnfitJournalError(
                    f"the journal {self.address} cannot have {REPLICAS} copies: {error}; use a NATS cluster "
                    f"of three servers, {_REMEDY}"
                ) from error
        return await self._ask(f"STREAM.CREATE.{self._place.stream}", {**config, "num_replicas": 1})

    async def _require_sync(self) -> None:
        """Refuse servers that acknowledge what they have not synced, or that do not say."""
        if self._place.is_lenient:
            return
        found = await self._servers()
        lazy = sorted(name for name, is_synced in found.items() if not is_synced)
        if not found:
            raise UnfitJournalError(
                f"the journal {self.address} does not report how its servers sync: import "
                f"{_SERVERS.decode()} from the system account, {_REMEDY}"
            )
        if lazy:
            raise UnfitJournalError(
                f"the journal's server {lazy[0]} acknowledges before it syncs: set `sync_interval: always` "
                f"in its jetstream block, {_REMEDY}"
            )

    async def _servers(self) -> dict[str, bool]:
        """Return for each server that answers whether it syncs each write."""
        connection = self._connected()
        answers = _ServerAnswers(str(connection.info.get("domain", "")))
        inbox = b"_INBOX." + base64.b32encode(msgspec.json.encode(id(answers))).strip(b"=")
        sid = connection.subscribe(inbox, answers)
        connection.publish(_SERVERS, b'{"config":true}', inbox)
        try:
            async with asyncio.timeout(LOOK_S):
                while len(answers.servers) < REPLICAS and not answers.ended:
                    await answers.arrived.wait()
                    answers.arrived.clear()
        except TimeoutError:
            pass
        finally:
            connection.unsubscribe(sid)
        return answers.servers

    async def _append(self, position: int, record: bytes) -> None:
        headers = f"NATS/1.0\r\nNats-Expected-Last-Sequence: {position - 1}\r\n\r\n".encode()
        frame = await self._connected().request(self._place.subject, record, ANSWER_S, headers)
        answer = msgspec.json.decode(frame[3])
        error = answer.get("error")
        if error is None and answer.get("seq") == position:
            return
        if error is None or error.get("err_code") == WRONG_LAST:
            raise PositionTakenError(position)
        raise _AnswerError(error)

    async def _get(self, position: int) -> bytes | None:
        try:
            answer = await self._ask(f"STREAM.MSG.GET.{self._place.stream}", {"seq": position})
        except _AnswerError as error:
            if error.err_code == NO_MESSAGE:
                return None
            raise
        return base64.b64decode(answer["message"].get("data", ""))

    async def _get_all(self, positions: list[int]) -> list[bytes | None]:
        return await asyncio.gather(*map(self._get, positions))

    async def _ask(self, endpoint: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = b"" if body is None else msgspec.json.encode(body)
        frame = await self._connected().request(f"$JS.API.{endpoint}".encode(), data, ANSWER_S)
        answer: dict[str, Any] = msgspec.json.decode(frame[3])
        if "error" in answer:
            raise _AnswerError(answer["error"])
        return answer

    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection


class _ServerAnswers:
    """The sink of what the servers of a cluster say about themselves.

    Servers of other domains answer too if leaf nodes share the system account. They keep no copy.
    """

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self.items: list[tuple[bytes, bytes, bytes, bytes]] = []
        self.servers: dict[str, bool] = {}
        """Whether each server syncs every write, by its name."""
        self.arrived = asyncio.Event()
        self.ended = False

    def flush(self) -> None:
        """Read each answer."""
        for *_, headers, data in self.items:
            if not data and headers.startswith(b"NATS/1.0 503"):
                self.ended = True
                continue
            answer = msgspec.json.decode(data)
            about, server = answer.get("data", {}), answer.get("server", {})
            if server.get("domain", "") == self._domain and not about.get("disabled"):
                self.servers[str(server.get("name"))] = bool(about.get("config", {}).get("sync_always"))
        self.items.clear()
        self.arrived.set()
