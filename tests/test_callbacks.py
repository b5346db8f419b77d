"""Callbacks run in the order in which they were added."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.callbacks import Callbacks


def test_callbacks_keep_their_order() -> None:
    called: list[int] = []
    callbacks: Callbacks[Callable[[], None]] = Callbacks()
    for number in range(100):
        callbacks.add(partial(called.append, number))
    for callback in callbacks:
        callback()
    assert called == list(range(100))


def test_a_callback_is_called_once_and_no_more_after_it_is_removed() -> None:
    called: list[str] = []
    callbacks: Callbacks[Callable[[str], None]] = Callbacks()
    callbacks.add(called.append)
    callbacks.add(called.append)
    assert len(callbacks) == 1
    for callback in callbacks:
        callback("once")
        callbacks.discard(called.append)
    callbacks.discard(called.append)
    assert called == ["once"]
    assert not callbacks
