"""Rows of consumers, and NATS Streaming from the engine's pages."""

from __future__ import annotations

from consoles import sampler_with, stream_answer
from headwater.console.consumers_view import consumers_view

CONSUMER = {
    "name": "slow",
    "config": {"max_ack_pending": 10, "filter_subjects": ["a", "b"]},
    "num_pending": 9,
    "num_ack_pending": 2,
    "num_waiting": 1,
    "num_redelivered": 3,
    "delivered": {"stream_seq": 8, "last_active": "2026-11-16T10:00:00Z"},
    "ack_floor": {"stream_seq": 6},
}


def test_a_consumer_is_a_row() -> None:
    row = consumers_view(sampler_with(stream_answer("A"), consumers={"A": [CONSUMER]}), {})["rows"][
        "local/A/slow"
    ]
    assert (row["pending"], row["ack_pending"], row["waiting"], row["redelivered"]) == (9, 2, 1, 3)
    assert (row["kind"], row["filter"], row["floor"]) == ("pull", "a, b", 6)


def test_channels_and_clients_are_listed() -> None:
    subscriptions = [{"pending_count": 2, "is_stalled": True}, {"is_offline": True}]
    streaming = {
        "channels": [{"name": "orders", "msgs": 4, "subscriptions": subscriptions}],
        "clients": [{"id": "till-1", "subs_count": 2}],
    }
    view = consumers_view(sampler_with(streaming=streaming), {})
    channel = view["channels"]["local/orders"]
    assert (channel["messages"], channel["pending"], channel["stalled"], channel["offline"]) == (4, 2, 1, 1)
    assert view["clients"]["local/till-1"]["subscriptions"] == 2
