"""Asks many streams at once, without waiting for those that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headwater.errors import Error
from headwater.stream.stream import Stream

ANSWER_WITHIN_S = 4.0
"""How long a stream may take to answer, as long as a nats-server waits for its cluster."""

_T = TypeVar("_T")


@dataclass(slots=True)
class StreamAnswers(Generic[_T]):
    """The answers of streams, the streams that gave none in time, and those that failed, with the reason."""

    given: dict[str, _T] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class LateStreams:
    """The streams that owe an answer; they are not asked again until they have given it."""

    def __init__(self) -> None:
        self._owed: dict[Stream, set[asyncio.Task[Any]]] = {}
        """The questions that each stream has not answered yet; callers may have asked at the same time."""

    async def ask(
        self, streams: Iterable[Stream], question: Callable[[Stream], Coroutine[Any, Any, _T]]
    ) -> StreamAnswers[_T]:
        """Return the answers of all streams that answer in time."""
        answers: StreamAnswers[_T] = StreamAnswers()
        asked: dict[Stream, asyncio.Task[_T]] = {}
        for stream in streams:
            if stream in self._owed:
                answers.missing.append(stream.name)
            else:
                asked[stream] = asyncio.create_task(question(stream), name=f"ask {stream.name}")
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=ANSWER_WITHIN_S)
        finally:
            for stream, task in asked.items():
                self._take(answers, stream, task)
        return answers

    def _take(self, answers: StreamAnswers[_T], stream: Stream, task: asyncio.Task[_T]) -> None:
        if not task.done():
            answers.missing.append(stream.name)
            self._owed.setdefault(stream, set()).add(task)
            task.add_done_callback(lambda task: self._answered(stream, task))
        elif (error := task.exception()) is None:
            answers.given[stream.name] = task.result()
        elif isinstance(error, Error):
            answers.failed[stream.name] = str(error)
        else:
            raise error

    def _answered(self, stream: Stream, task: asyncio.Task[Any]) -> None:
        self._owed[stream].discard(task)
        if not self._owed[stream]:
            del self._owed[stream]
        if not task.cancelled():
            task.exception()  # no caller waits for it any more

    async def close(self) -> None:
        """Stop waiting for answers."""
        owed = [task for tasks in self._owed.values() for task in tasks]
        for task in owed:
            task.cancel()
        await asyncio.gather(*owed, return_exceptions=True)
