"""Writes to one stream in bulk: the parts of tasks, and the commit of the driver.

Requests are repeated until they are answered: the engine takes a chunk once and a batch once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.errors import BusError, Error
from headwater.model import headers as header_block
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, ReplyTimeoutError
from headwater.replication.worker.origin import connect_options
from headwater.wire.bulk_requests import OFFERED_TO, VERSION, WRITE, PartChunk, encode_chunk
from headwater.wire.bulk_rows import BulkRows

WINDOW = 4
"""How many chunks of a part may be without an answer."""
CHUNK_BYTES = 1 << 20
"""About how large a chunk is, if the server takes as much."""
OVERHEAD_BYTES = 1024
"""What a request takes besides its messages."""
ANSWER_S = 60.0
"""How long a chunk waits for its answer."""
COMMIT_S = 600.0
"""How long a commit is repeated until it is answered."""
TRY_S = 10.0
"""How long one try of a commit waits for its answer."""
PAUSE_S = 0.5
_OFFER = header_block.build([(OFFERED_TO.encode(), b"1")])


class SinkError(Error):
    """The engine refuses a bulk write; the text says why."""


class BulkClient:
    """A connection that writes to one stream in bulk."""

    def __init__(self, client: BlockingClient, origin: NatsOrigin) -> None:
        self.client = client
        self._origin = origin
        self._subject = f"{origin.api_prefix}.{WRITE}{origin.stream}"

    @property
    def chunk_bytes(self) -> int:
        """Return how many bytes of messages a chunk may have."""
        return min(CHUNK_BYTES, self.client.max_payload - OVERHEAD_BYTES)

    def offer(self) -> dict[str, Any] | None:
        """Return how the engine takes bulk writes, None from a server that does not."""
        subject = f"{self._origin.api_prefix}.STREAM.INFO.{self._origin.stream}"
        answer = self._ask(subject, b"", _OFFER, ANSWER_S)
        offered: dict[str, Any] | None = (answer.get("headwater") or {}).get("write")
        if offered is not None and offered.get("version") != VERSION:
            raise SinkError(
                f"the engine takes bulk writes of version {offered.get('version')}, not {VERSION}"
            )
        return offered

    def part(self, write: str, name: str) -> BulkPart:
        """Return a new part of a write."""
        return BulkPart(self.client, f"{self._subject}.PART", write, name)

    def commit(
        self,
        write: str,
        query: str,
        batch: int,
        parts: Sequence[str],
        messages: int,
        *,
        once: bool = False,
        created: str = "",
    ) -> bool:
        """Return once the batch is stored; False if it was before.

        With `created` it is refused if the stream was created at another time.
        """
        body: dict[str, Any] = {
            "version": VERSION,
            "write": write,
            "query": query,
            "batch": batch,
            "parts": list(parts),
            "messages": messages,
            "once": once,
        }
        if created:
            body["created"] = created
        answer = self._repeated(f"{self._subject}.COMMIT", json.dumps(body).encode())
        return not answer["duplicate"]

    def last_batch(self, query: str) -> int:
        """Return the last batch of a query that the stream has, -1 if it has none."""
        body = json.dumps({"version": VERSION, "query": query}).encode()
        return int(self._ask(f"{self._subject}.LAST", body, b"", ANSWER_S)["batch"])

    def abort(self, write: str) -> None:
        """Have the engine forget a write; if it cannot, it does so after an hour."""
        try:
            body = json.dumps({"version": VERSION, "write": write}).encode()
            self._ask(f"{self._subject}.ABORT", body, b"", TRY_S)
        except (Error, OSError):
            pass

    def _repeated(self, subject: str, body: bytes) -> dict[str, Any]:
        """Return the answer to a request; an engine that is starting or busy is asked again."""
        deadline = time.monotonic() + COMMIT_S
        while True:
            try:
                return self._ask(subject, body, b"", TRY_S)
            except (BusError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
                self._reconnect(deadline)

    def _reconnect(self, deadline: float) -> None:
        while True:
            try:
                self.client.renew()
                return
            except (BusError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)

    def _ask(self, subject: str, body: bytes, headers: bytes, timeout_s: float) -> dict[str, Any]:
        inbox = self.client.open()
        self.client.publish(subject.encode(), body, inbox.subject, headers)
        try:
            frame = inbox.read(timeout_s)[0]
        finally:
            self.client.shut(inbox)
        return answer_of(subject, frame[2], frame[3])


class BulkPart:
    """The messages of one task, sent in chunks; at most a window of them waits for answers."""

    def __init__(self, client: BlockingClient, subject: str, write: str, name: str) -> None:
        self.name = name
        self.messages = 0
        self._client = client
        self._subject = subject
        self._write = write
        self._inbox = client.open()
        self._held: BulkRows | None = None
        """The last chunk, which is held back: the end of the part is sent with it."""
        self._next = 0
        """The number of the next chunk."""
        self._answered = 0

    def append(self, rows: BulkRows) -> None:
        """Send messages; return when at most a window of chunks waits."""
        if self._held is not None:
            self._send(self._held, last=False)
        self._held = rows
        self.messages += len(rows)
        while self._next - self._answered >= WINDOW:
            self._receive()

    def finish(self) -> int:
        """Return the number of messages once the engine has all of them."""
        if self._held is not None:
            self._send(self._held, last=True)
            self._held = None
        while self._answered < self._next:
            self._receive()
        self._client.shut(self._inbox)
        return self.messages

    def _send(self, rows: BulkRows, *, last: bool) -> None:
        body = encode_chunk(PartChunk(VERSION, self._write, self.name, self._next, last, rows.encode()))
        if len(body) > self._client.max_payload:
            raise SinkError(
                f"a message of {len(rows.datas) + len(rows.headers)} bytes does not fit into a request: the "
                f"server takes {self._client.max_payload}"
            )
        self._client.publish(self._subject.encode(), body, self._inbox.subject)
        self._next += 1

    def _receive(self) -> None:
        try:
            frames = self._inbox.read(ANSWER_S)
        except ReplyTimeoutError:
            raise SinkError(f"no answer on {self._subject} in {ANSWER_S:g} s") from None
        for frame in frames:
            answer_of(self._subject, frame[2], frame[3])
            self._answered += 1


def answer_of(subject: str, headers: bytes, body: bytes) -> dict[str, Any]:
    """Return the answer to a request; raise what it refuses."""
    status = header_block.status(headers)
    if status is not None and status.code == 503:
        raise BusError(f"no engine answers on {subject}")
    try:
        answer = json.loads(body)
    except ValueError:
        raise BusError(f"the answer on {subject} is not JSON") from None
    if error := answer.get("error"):
        raise SinkError(str(error.get("description")))
    return dict(answer)


@contextmanager
def bulk_client(origin: NatsOrigin, *, patient_s: float = 0.0) -> Iterator[BulkClient]:
    """Connect to the server of a stream; for so long try again while it does not answer."""
    deadline = time.monotonic() + patient_s
    while True:
        try:
            client = BlockingClient(connect_options(origin))
            break
        except (BusError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
    with client:
        yield BulkClient(client, origin)
