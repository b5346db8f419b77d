"""The config of a hidden consumer, as nats-server creates one to read an origin: ephemeral, without acks."""

from __future__ import annotations

from typing import Any

from headwater.model.times import SECOND


def hidden_consumer(deliver_subject: str, filters: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the config of a push consumer that clients do not see and the origin removes when inactive.

    `more` says where it begins (`deliver_policy` and its options), and what else this consumer needs.
    """
    config: dict[str, Any] = {
        "ack_policy": "none",
        "max_deliver": 1,
        "replay_policy": "instant",
        "deliver_subject": deliver_subject,
        "idle_heartbeat": SECOND,
        "inactive_threshold": 10 * SECOND,
        "num_replicas": 0,
        "direct": True,
        **more,
    }
    return config | filter_fields(filters)


def filter_fields(filters: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a consumer config that select subjects; one filter has a field of its own."""
    if len(filters) == 1:
        return {"filter_subject": filters[0]}
    return {"filter_subjects": list(filters)} if filters else {}
