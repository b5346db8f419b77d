"""The numbers of consumers, and the families that show them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from headwater.delivery.consumer import Consumer
from headwater.monitor.exposition import Exposition, Family, samples


class ConsumerNumbers(NamedTuple):
    """One consumer."""

    delivered_consumer_seq: int
    delivered_stream_seq: int
    ack_floor_consumer_seq: int
    ack_floor_stream_seq: int
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    num_pending: int | None
    """None while it must be counted first, which a scrape does not do."""


FAMILIES: tuple[Family[ConsumerNumbers], ...] = (
    Family(
        "jetstream_consumer_delivered_consumer_seq",
        "Deliveries so far.",
        attrgetter("delivered_consumer_seq"),
    ),
    Family(
        "jetstream_consumer_delivered_stream_seq",
        "Last stream sequence that was delivered.",
        attrgetter("delivered_stream_seq"),
    ),
    Family(
        "jetstream_consumer_ack_floor_consumer_seq",
        "Delivery up to which everything is acknowledged.",
        attrgetter("ack_floor_consumer_seq"),
    ),
    Family(
        "jetstream_consumer_ack_floor_stream_seq",
        "Stream sequence up to which everything is acknowledged.",
        attrgetter("ack_floor_stream_seq"),
    ),
    Family(
        "jetstream_consumer_num_ack_pending",
        "Delivered messages that wait for their ack.",
        attrgetter("num_ack_pending"),
    ),
    Family(
        "jetstream_consumer_num_redelivered",
        "Messages without an ack that were delivered more than once.",
        attrgetter("num_redelivered"),
    ),
    Family(
        "jetstream_consumer_num_waiting", "Pull requests that wait for messages.", attrgetter("num_waiting")
    ),
    Family(
        "jetstream_consumer_num_pending",
        "Messages that wait for their first delivery.",
        attrgetter("num_pending"),
    ),
)


def consumer_numbers(consumer: Consumer) -> ConsumerNumbers:
    """Return a consumer's numbers now."""
    state, backlog = consumer.state, consumer.backlog
    delivered, floor = state.delivered, state.ack_floor
    return ConsumerNumbers(
        delivered_consumer_seq=delivered.consumer_seq,
        delivered_stream_seq=delivered.stream_seq,
        ack_floor_consumer_seq=floor.consumer_seq,
        ack_floor_stream_seq=floor.stream_seq,
        num_ack_pending=state.num_ack_pending,
        num_redelivered=state.num_redelivered,
        num_waiting=consumer.num_waiting(),
        num_pending=len(backlog) if backlog.is_known else None,
    )


def write_consumers(exposition: Exposition, rows: Sequence[tuple[str, ConsumerNumbers]]) -> None:
    """Write the families of all consumers."""
    for family in FAMILIES:
        exposition.gauge(family.name, family.help, samples(family, rows))
