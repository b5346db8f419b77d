"""Calls that hang delay no other call, and a stream has at most its share of the threads."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from headwater import threads
from headwater.threads import ElasticThreads, ThreadShare

WITHIN_S = 60.0


class Gate:
    """Calls that hang until the gate is opened, counted."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.running = self.peak = 0

    def pass_through(self) -> None:
        with self._lock:
            self.running += 1
            self.peak = max(self.peak, self.running)
        self._open.wait(WITHIN_S)
        with self._lock:
            self.running -= 1

    def open(self) -> None:
        self._open.set()


def test_calls_return_what_they_give_or_raise() -> None:
    threads = ElasticThreads(2, "test")
    assert threads.submit(lambda a, b: a + b, 1, b=2).result(WITHIN_S) == 3
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(WITHIN_S)
    assert [f.result(WITHIN_S) for f in [threads.submit(abs, -n) for n in range(1000)]] == list(range(1000))
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(abs, 1)


def test_no_more_calls_run_than_there_are_threads() -> None:
    threads, gate = ElasticThreads(3, "test", hung_s=WITHIN_S), Gate()
    futures = [threads.submit(gate.pass_through) for _ in range(50)]
    while gate.running < 3:
        pass
    gate.open()
    for future in futures:
        future.result(WITHIN_S)
    assert gate.peak == 3
    threads.shutdown()


def test_calls_that_hang_take_no_other_s_turn_and_their_threads_leave_when_they_end() -> None:
    threads, gate = ElasticThreads(2, "test", hung_s=0.02), Gate()
    hung = [threads.submit(gate.pass_through) for _ in range(7)]
    assert threads.submit(abs, -1).result(WITHIN_S) == 1
    gate.open()
    for future in hung:
        future.result(WITHIN_S)
    for _ in range(100):
        threads.submit(abs, -1).result(WITHIN_S)
    while len(threads._threads) > 2:
        threads.submit(abs, -1).result(WITHIN_S)
    threads.shutdown()


def test_a_call_that_hangs_does_not_keep_a_shutdown_from_ending() -> None:
    threads, gate = ElasticThreads(1, "test", hung_s=0.02), Gate()
    hung = threads.submit(gate.pass_through)
    threads.shutdown()
    assert not hung.done()
    gate.open()
    hung.result(WITHIN_S)


def test_a_shutdown_waits_for_calls_that_do_not_hang() -> None:
    threads, gate = ElasticThreads(1, "test"), Gate()
    future = threads.submit(gate.pass_through)
    threading.Timer(0.05, gate.open).start()
    threads.shutdown()
    assert future.done()


def test_a_call_that_waits_can_be_cancelled() -> None:
    threads, gate = ElasticThreads(1, "test"), Gate()
    first, second = threads.submit(gate.pass_through), threads.submit(abs, -1)
    assert second.cancel()
    gate.open()
    first.result(WITHIN_S)
    assert threads.submit(abs, -2).result(WITHIN_S) == 2
    threads.shutdown(cancel_futures=True)


def test_a_share_takes_no_more_than_its_part_of_the_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        hangs, other, gate = ThreadShare(pool, 3), ThreadShare(pool, 3), Gate()
        futures: list[Future[None]] = [hangs.submit(gate.pass_through) for _ in range(20)]
        assert other.submit(abs, -1).result(WITHIN_S) == 1, "one thread is left for the others"
        gate.open()
        for future in futures:
            future.result(WITHIN_S)
        assert gate.peak <= 3
        assert hangs.submit(abs, -2).result(WITHIN_S) == 2


def test_calls_of_a_share_are_cancelled_when_the_threads_are_shut_down() -> None:
    pool, gate = ThreadPoolExecutor(1), Gate()
    share = ThreadShare(pool, 1)
    first, second = share.submit(gate.pass_through), share.submit(abs, -1)
    pool.shutdown(wait=False)
    gate.open()
    first.result(WITHIN_S)
    pool.shutdown()
    assert second.cancelled()


async def test_calls_that_hang_keep_no_other_call_of_the_control_plane_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    hung = threads.ElasticThreads(2, "test", hung_s=0.05)
    monkeypatch.setattr(threads, "_control", hung)
    waiting = [asyncio.ensure_future(threads.on_thread(release.wait)) for _ in range(10)]
    assert await threads.on_thread(divmod, 7, 2) == (3, 1)
    release.set()
    assert await asyncio.gather(*waiting) == [True] * 10


async def test_what_a_call_on_a_thread_raises_is_raised_to_its_caller() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.on_thread(int, "x", base=10)
