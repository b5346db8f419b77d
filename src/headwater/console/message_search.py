"""Searches a stream for messages of which a condition holds, bounded in messages, bytes, results and time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from headwater.console.message_reader import MessageReader
from headwater.console.payload import parsed_json
from headwater.model import headers as header_block
from headwater.model.condition import Condition, ConditionError
from headwater.model.message import Message
from headwater.model.times import format_time

MOST_MESSAGES = 100_000
MOST_BYTES = 64 * 1024 * 1024
MOST_FOUND = 100
MOST_SECONDS = 20.0
MOST_LETTERS = 500
NAMES = ("seq", "subject", "time", "size", "headers", "text", "json")


@dataclass(frozen=True)
class SearchBounds:
    """When a search stops before the end of the stream."""

    messages: int = MOST_MESSAGES
    bytes: int = MOST_BYTES
    found: int = MOST_FOUND
    seconds: float = MOST_SECONDS


@dataclass
class SearchResult:
    """What a search has found so far."""

    found: list[Message] = field(default_factory=list)
    messages: int = 0
    """How many messages were looked at."""
    bytes: int = 0
    failed: int = 0
    """Of how many the condition could not be evaluated, such as a number compared with a text."""
    next_seq: int = 0
    """Where to continue; 0 at the end of the stream."""
    stopped: str = ""
    """Which bound ended the search; empty at the end of the stream."""


def search_condition(text: str) -> Condition:
    """Return a condition over messages; raise if it is malformed, or not allowed in a search."""
    if len(text) > MOST_LETTERS:
        raise ConditionError(f"is too long: at most {MOST_LETTERS} letters")
    condition = Condition(text, _FUNCTIONS)
    condition.require_simple(NAMES)
    return condition


def _lower(text: Any) -> str:
    """Return a text in lower case."""
    if not isinstance(text, str):
        raise TypeError("lower needs a text")
    return text.lower()


_FUNCTIONS = {"lower": _lower, "len": len}


class MessageSearch:
    """Searches one stream; cancelling the task that runs it ends it."""

    def __init__(self, reader: MessageReader, condition: Condition, bounds: SearchBounds) -> None:
        self._reader = reader
        self._condition = condition
        self._bounds = bounds
        self.result = SearchResult()

    async def run(self, start_seq: int, subject: str = "") -> SearchResult:
        """Search from a sequence on; return when something ends the search."""
        began_s = time.monotonic()
        messages = self._reader.each(start_seq, subject)
        try:
            async for message in messages:
                self._look(message)
                self.result.stopped = self._reached(time.monotonic() - began_s)
                if self.result.stopped:
                    self.result.next_seq = message.seq + 1
                    break
        finally:
            await _close(messages)
        return self.result

    def _look(self, message: Message) -> None:
        result = self.result
        result.messages += 1
        result.bytes += len(message.data) + len(message.headers)
        try:
            holds = self._condition.holds(names_of(message))
        except ConditionError:
            # One message without the member that is asked for does not end a search.
            result.failed += 1
            return
        if holds:
            result.found.append(message)

    def _reached(self, passed_s: float) -> str:
        result, bounds = self.result, self._bounds
        if len(result.found) >= bounds.found:
            return f"{bounds.found} messages found"
        if result.messages >= bounds.messages:
            return f"{bounds.messages} messages read"
        if result.bytes >= bounds.bytes:
            return f"{bounds.bytes} bytes read"
        return f"{bounds.seconds:g} seconds passed" if passed_s >= bounds.seconds else ""


def names_of(message: Message) -> dict[str, Any]:
    """Return what a condition may use."""
    pairs = header_block.parse(message.headers) or []
    try:
        document = parsed_json(message.data)
    except ValueError:
        document = None
    return {
        "seq": message.seq,
        "subject": message.subject.decode(errors="replace"),
        "time": format_time(message.ts),
        "size": len(message.data),
        "headers": {
            name.decode(errors="replace"): value.decode(errors="replace") for name, value in reversed(pairs)
        },
        "text": message.data.decode(errors="replace"),
        "json": document,
    }


async def _close(messages: AsyncIterator[Message]) -> None:
    await messages.aclose()  # type: ignore[attr-defined]
