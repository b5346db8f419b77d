"""Batches for tests: their headers, their commit, and the answers to them."""

from __future__ import annotations

import json
from typing import Any

from headwater.model import headers as header_block
from headwater.stream.stream import Stream
from stream.streams import Answers, Workshop


class RecordedAnswers(Answers):
    """Keeps every answer, the empty ones and several to one reply subject too."""

    def bodies(self) -> list[tuple[bytes, bytes]]:
        """Return the answers so far, in order, and forget them."""
        answers: list[tuple[bytes, bytes]] = []
        rest = bytes(self.frames)
        self.frames.clear()
        while rest:
            line, rest = rest.split(b"\r\n", 1)
            _, reply, size = line.split(b" ")
            answers.append((reply, rest[: int(size)]))
            rest = rest[int(size) + 2 :]
        return answers


def batch(batch_id: bytes, sequence: int, block: bytes = b"") -> bytes:
    """Return a header block with the place of a message in a batch."""
    block = header_block.add(block, b"Nats-Batch-Id", batch_id)
    return header_block.add(block, b"Nats-Batch-Sequence", b"%d" % sequence)


async def commit(
    workshop: Workshop, stream: Stream, batch_id: bytes, *messages: tuple[bytes, bytes], data: bytes = b""
) -> dict[str, Any]:
    """Publish (subject, headers) as a batch that its last message commits, and return the last answer."""
    assert isinstance(workshop.answers, RecordedAnswers)
    workshop.answers.bodies()
    blocks = [batch(batch_id, sequence, block) for sequence, (_, block) in enumerate(messages, 1)]
    blocks[-1] = header_block.add(blocks[-1], b"Nats-Batch-Commit", b"1")
    stream.publishing.offer(
        [(subject, b"r", block, data) for (subject, _), block in zip(messages, blocks, strict=True)]
    )
    await stream.publishing.settled()
    answer: dict[str, Any] = json.loads(workshop.answers.bodies()[-1][1])
    return answer
