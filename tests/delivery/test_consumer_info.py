"""The info of a consumer shows its state, what waits for it, and times of the wall clock."""

from __future__ import annotations

from delivery.deliveries import SECOND, Desk


async def test_a_wall_clock_that_is_set_back_does_not_delay_redelivery(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(ack_wait=SECOND)
    desk.pull(consumer, batch=1)
    await desk.sent(1)
    desk.clock.step(-3600 * SECOND)
    desk.pull(consumer, batch=1, expires=30 * SECOND)
    desk.clock.advance(2 * SECOND)
    consumer.tick(desk.clock.steady_ns())
    (again,) = await desk.sent(1)
    assert again.tokens[:2] == [2, 1]
    info = await consumer.info()
    assert info.delivered.last_active == desk.clock.now_ns()


async def test_the_info_shows_what_is_pending_waiting_and_paused(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"c")
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    await desk.sent(1)
    info = await consumer.info()
    assert (info.num_ack_pending, info.num_pending, info.delivered.stream_seq) == (1, 2, 1)
    assert (info.paused, info.pause_remaining) == (False, 0)
    paused = desk.add(name="P", pause_until=desk.clock.now_ns() + 60 * SECOND)
    desk.pull(paused, batch=1, expires=30 * SECOND)
    info = await paused.info()
    assert (info.paused, info.pause_remaining, info.num_waiting) == (True, 60 * SECOND, 1)
