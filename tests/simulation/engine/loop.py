"""An event loop in virtual time: nothing waits, threads run inline, a killed life never runs again."""

from __future__ import annotations

import asyncio
import contextvars
import random
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from simulation.engine.hashes import NumberedFuture, NumberedTask

LIFE: ContextVar[int] = ContextVar("LIFE", default=0)
"""Which life of the engine a callback belongs to; 0 is everybody outside of it."""
QUICK_S = 0.004
SLOW_S = 3.0
TURN_S = 0.000_002
"""What a turn of the loop takes at the least: who waits for time to pass must not wait in vain."""


class StalledError(Exception):
    """No task or timer is left that could run."""


class _NoSelector(selectors.BaseSelector):
    """A selector that lets time pass instead of waiting."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._map: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._map[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map[fileobj]

    def get_map(self) -> Any:
        return self._map

    def select(self, timeout: float | None = None) -> list[Any]:
        self._loop.on_turn()
        if timeout is None:
            raise StalledError("nothing is scheduled any more")
        self._loop.pass_time(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """The loop that everything in a run shares."""

    def __init__(self, seed: int) -> None:
        self._now_s = 0.0
        self._rng = random.Random(seed)
        self.dead_lives: set[int] = set()
        self.slow = 0.0
        """Which part of what is done on threads takes long."""
        self.on_turn: Callable[[], None] = lambda: None
        """Called before the loop looks for what is due."""
        self.turns = 0
        super().__init__(_NoSelector(self))
        self.life_of: dict[asyncio.Task[Any], int] = {}
        self.set_task_factory(self._made)

    def _made(self, _: object, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        task = NumberedTask(work, loop=self, context=context)
        self.life_of[task] = (context or contextvars.copy_context()).get(LIFE, 0)
        task.add_done_callback(self.life_of.pop)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def time(self) -> float:
        return self._now_s

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.turns += 1
        self._now_s += max(seconds, TURN_S)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        life = (context or contextvars.copy_context()).get(LIFE, 0)
        if life:
            return super().call_soon(self._if_alive, life, callback, args, context=context)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        life = (context or contextvars.copy_context()).get(LIFE, 0)
        if life:
            return super().call_at(when, self._if_alive, life, callback, args, context=context)
        return super().call_at(when, callback, *args, context=context)

    def _if_alive(self, life: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if life not in self.dead_lives:
            callback(*args)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it whole, some time from now, and let it be known some time after that."""
        done = self.create_future()
        self.call_later(self._delay_s(), self._work, done, func, args)
        return done

    def _work(self, done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except StopIteration as error:
            self.call_later(self._delay_s(), _fail, done, RuntimeError(repr(error)))
        except BaseException as error:
            self.call_later(self._delay_s(), _fail, done, error)
        else:
            self.call_later(self._delay_s(), _succeed, done, result)

    def _delay_s(self) -> float:
        if self.slow and self._rng.random() < self.slow:
            return self._rng.random() * SLOW_S
        return self._rng.random() * QUICK_S


def _succeed(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
