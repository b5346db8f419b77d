"""Publishes rows as messages of a plain nats-server, each with an id, and waits for the acknowledgements.

A repeated task publishes its rows again with the same ids, so within the duplicate window of the stream each
is stored once.
"""

from __future__ import annotations

from headwater.errors import BusError
from headwater.model import headers as header_block
from headwater.replication.worker.client import BlockingClient, ReplyTimeoutError
from headwater.spark.bulk_client import ANSWER_S, SinkError, answer_of
from headwater.spark.message_rows import MessageRows

WINDOW = 1024
"""How many messages may be without an acknowledgement."""


class RowPublisher:
    """Publishes the rows of one task."""

    def __init__(self, client: BlockingClient, stream: str, prefix: str) -> None:
        self._client = client
        self._stream = stream
        self._prefix = prefix
        """What the ids of the rows begin with."""
        self._inbox = client.open()
        self.messages = 0
        self._acknowledged = 0

    def append(self, rows: MessageRows) -> None:
        """Publish rows; return when at most a window of them is not acknowledged."""
        subjects, datas = rows.subjects.to_pylist(), rows.datas.to_pylist()
        for subject, data, block in zip(subjects, datas, rows.headers.to_pylist(), strict=True):
            if header_block.get(block, header_block.MESSAGE_ID) is None:
                message_id = f"{self._prefix}:{self.messages}".encode()
                block = header_block.add(block, header_block.MESSAGE_ID, message_id)
            self._client.publish(subject.encode(), data, self._inbox.subject, block)
            self.messages += 1
            while self.messages - self._acknowledged >= WINDOW:
                self._receive()

    def finish(self) -> int:
        """Return the number of rows once all are acknowledged."""
        while self._acknowledged < self.messages:
            self._receive()
        self._client.shut(self._inbox)
        return self.messages

    def _receive(self) -> None:
        try:
            frames = self._inbox.read(ANSWER_S)
        except ReplyTimeoutError:
            raise SinkError(f"no acknowledgement in {ANSWER_S:g} s") from None
        for frame in frames:
            answer = answer_of("a subject of the DataFrame", frame[2], frame[3])
            if answer.get("stream") != self._stream:
                raise BusError(
                    f"a message was stored in stream {answer.get('stream')!r}, not {self._stream!r}"
                )
            self._acknowledged += 1
