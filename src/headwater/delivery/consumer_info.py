"""The info of a consumer, as clients ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.delivery.pause import Pause
from headwater.model.consumer import ConsumerInfo

if TYPE_CHECKING:
    from headwater.delivery.consumer import Consumer


async def info_of(consumer: Consumer, clock: Clock, pause: Pause) -> ConsumerInfo:
    """Return a consumer's info, once the group commit in progress is durable and its messages are counted."""
    await consumer.stream.reading.consistent()
    await consumer.backlog.count()
    state, stepped_ns = consumer.state, clock.stepped_ns()
    return ConsumerInfo(
        stream_name=consumer.stream.name,
        name=consumer.name,
        created=consumer.created_ns,
        config=consumer.config,
        delivered=state.delivered.shifted(stepped_ns),
        ack_floor=state.ack_floor.shifted(stepped_ns),
        num_ack_pending=state.num_ack_pending,
        num_redelivered=state.num_redelivered,
        num_waiting=consumer.num_waiting(),
        num_pending=len(consumer.backlog),
        push_bound=consumer.is_bound(),
        paused=consumer.is_paused,
        pause_remaining=pause.left_ns,
        ts=clock.now_ns(),
    )
