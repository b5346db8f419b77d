"""The durable consumer through which a remote work-queue or interest stream is read: its name and config.

It is a pull consumer with an ack for each message, which every release of nats-server supports. Messages stay
at the origin until the target has committed them, also while the engine is not connected (decision 0021).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.errors import BusError
from headwater.model.times import format_time
from headwater.model.upstream import StreamSource, hash8
from headwater.replication.hidden_consumer import filter_fields
from headwater.wire.ack_subject import parse_ack_subject

PREFIX = "HEADWATER_"
SPARE = "_"
"""The suffix of the consumer that keeps interest while the real one is re-created."""
MAX_ACK_PENDING = 250_000
ACK_WAIT_NS = 300_000_000_000
"""Longer than a range takes; a message that is redelivered nevertheless is recognized by its sequence."""
_OLDER_TOKENS = 9
"""How many tokens an ack subject of the older form has."""
RESET_LEVEL = 4
"""The API level from which on a consumer can be reset to its ack floor."""
_INVALID_JSON = 10025
_TOO_MANY_PENDING = 10121


def durable_name(store_id: str, account: str, target: str, upstream: str) -> str:
    """Return the name of an upstream's consumer, which is unique among all stores."""
    return PREFIX + hash8(f"{store_id} {account} {target} {upstream}")


def create_request(stream: str, name: str, filters: tuple[str, ...], start_seq: int = 0) -> dict[str, Any]:
    """Return the request that creates the consumer; it begins at the first message, or at a sequence."""
    config: dict[str, Any] = {
        "durable_name": name,
        "description": "read by Headwater, which acknowledges what its stream has stored",
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT_NS,
        "max_ack_pending": MAX_ACK_PENDING,
        "max_deliver": -1,
        "replay_policy": "instant",
        "num_replicas": 0,
        # From 2.14 on this lets a work queue have it next to other consumers; see `simpler_request`.
        "sourcing": True,
    }
    if start_seq:
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": start_seq}
    else:
        config["deliver_policy"] = "all"
    config |= filter_fields(filters)
    return {"stream_name": stream, "config": config}


def simpler_request(request: dict[str, Any], err_code: int) -> dict[str, Any] | None:
    """Return the request to try next after a refusal; None if no simpler request would help."""
    wishes = {
        # From 2.12 on servers refuse unknown fields; earlier ones ignore them.
        _INVALID_JSON: "sourcing",
        # The origin's own limit is lower than the wanted one.
        _TOO_MANY_PENDING: "max_ack_pending",
    }
    wish = wishes.get(err_code)
    if wish not in request["config"]:
        return None
    return {**request, "config": {key: value for key, value in request["config"].items() if key != wish}}


def takes_too_much(request: dict[str, Any], made: dict[str, Any]) -> bool:
    """Return whether a consumer has fewer filters than requested: before 2.10 it supports one.

    Acks would then remove messages that no filter selects.
    """
    return "filter_subjects" in request["config"] and not made["config"].get("filter_subjects")


def started(request: dict[str, Any], source: StreamSource) -> dict[str, Any]:
    """Return the request for a consumer that begins where a source's options say."""
    config = dict(request["config"])
    if source.opt_start_seq:
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": source.opt_start_seq}
    elif source.opt_start_time is not None:
        at = format_time(source.opt_start_time)
        config |= {"deliver_policy": "by_start_time", "opt_start_time": at}
    return {**request, "config": config}


def can_reset(info: dict[str, Any]) -> bool:
    """Return whether the server that sent this consumer info can reset a consumer."""
    level = (info["config"].get("metadata") or {}).get("_nats.level", "")
    return level.isdigit() and int(level) >= RESET_LEVEL


def ack_key(reply: bytes) -> str:
    """Return the constant first tokens of the ack subjects of a delivery's consumer."""
    if parse_ack_subject(reply) is None:
        raise BusError(f"a message has the reply {reply!r}, which is not an ack subject")
    tokens = reply.split(b".")
    # The newer form has the domain and the account before stream and consumer.
    return b".".join(tokens[: 4 if len(tokens) == _OLDER_TOKENS else 6]).decode()


def ack_subjects(key: str, seqs: Iterator[int]) -> Iterator[bytes]:
    """Yield the subjects that acknowledge messages; for single acks only the sequence matters."""
    form = key.encode().replace(b"%", b"%%") + b".1.%d.1.0.0"
    return (form % seq for seq in seqs)
