"""Reading ahead: what is wanted next is requested from a bucket while the last answer is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

AHEAD = 4
"""How many requests are in progress or answered and not used yet, which bounds the memory."""

_K = TypeVar("_K")
_V = TypeVar("_V")


def read_ahead(read: Callable[[_K], _V], wanted: Iterable[_K], ahead: int = AHEAD) -> Iterator[tuple[_K, _V]]:
    """Yield what each read returns, in order; an error is raised when its turn comes."""
    rest = iter(wanted)
    waiting: deque[tuple[_K, Future[_V]]] = deque()
    with ThreadPoolExecutor(ahead, thread_name_prefix="read-ahead") as threads:
        try:
            while True:
                while len(waiting) < ahead and (key := next(rest, None)) is not None:
                    waiting.append((key, threads.submit(read, key)))
                if not waiting:
                    return
                key, answer = waiting.popleft()
                yield key, answer.result()
        finally:
            for _, answer in waiting:
                answer.cancel()
