"""Where a consumer begins: by its deliver policy when it is created, or where a client resets it to."""

from __future__ import annotations

from headwater.delivery.consumer import Consumer
from headwater.errors import api_error
from headwater.model.consumer import ConsumerConfig, DeliverPolicy
from headwater.model.stream import MAX_SEQUENCE
from headwater.stream.stream import Stream

MOST_SUBJECTS = 1 << 30


async def start_of(stream: Stream, config: ConsumerConfig) -> tuple[int, list[int]]:
    """Return where a new consumer begins, and which existing sequences it wants, if only some."""
    state = await stream.reading.state()
    first, after = max(state.first_seq, 1), state.last_seq + 1
    filters = config.filters or (">",)
    match config.deliver_policy:
        case DeliverPolicy.NEW:
            return after, []
        case DeliverPolicy.LAST:
            seqs = await stream.reading.last_seqs(filters, None, MOST_SUBJECTS) or []
            return (seqs[-1], []) if seqs else (first, [])
        case DeliverPolicy.LAST_PER_SUBJECT:
            seqs = await stream.reading.last_seqs(filters, None, MOST_SUBJECTS) or []
            return (seqs[0], seqs) if seqs else (max(state.last_seq, first), [])
        case DeliverPolicy.BY_START_SEQUENCE:
            return max(min(config.opt_start_seq, MAX_SEQUENCE), first), []
        case DeliverPolicy.BY_START_TIME:
            return max(await stream.reading.seq_at(config.opt_start_time or 0), first), []
        case _:
            return first, []


async def check_reset(consumer: Consumer, seq: int) -> None:
    """Raise unless a consumer may begin again at a sequence: not before its declared start."""
    config = consumer.config
    if seq and config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
        if seq < config.opt_start_seq:
            raise api_error("consumer_invalid_reset", err="below start seq")
    elif seq and config.deliver_policy is DeliverPolicy.BY_START_TIME:
        if seq < await consumer.stream.reading.seq_at(config.opt_start_time or 0):
            raise api_error("consumer_invalid_reset", err="below start time")
    elif seq and config.deliver_policy is not DeliverPolicy.ALL:
        raise api_error("consumer_invalid_reset", err="not allowed")
