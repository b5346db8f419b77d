"""The permissions of users on a nats-server that serves engines, as its configuration accepts them.

An engine and its replicators communicate on `$HEADWATER.>`. A client that may publish there could commit
messages to any stream of the account, and one that may subscribe there could read them. So it is denied to
all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]

INTERNAL = "$HEADWATER.>"
INTERNAL_PREFIX = INTERNAL.removesuffix(">").encode()
_SERVED = ("$JS.API.>", "$JS.*.API.>")
_ANSWERS = ("_INBOX.>", "$JSC.R.>", "_R_.>", "$JS.S.>", "$JS.M.>")
"""Where answers and deliveries go: inboxes of clients, and those of nats-server's sources and mirrors."""
_READING = ("STREAM.INFO.>", "STREAM.MSG.GET.>", "DIRECT.GET.>", "CONSUMER.>")
"""The API that copying a stream needs."""
_STREAM_READING = ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "CONSUMER.CREATE")
_CONSUMER_READING = (
    *("DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"),
    *("CONSUMER.INFO", "CONSUMER.MSG.NEXT", "CONSUMER.DELETE", "CONSUMER.RESET"),
)


def engine() -> Json:
    """Return the permissions of an engine's user: all streams' subjects, and answers to all clients."""
    return {"publish": {"allow": [">"]}, "subscribe": {"allow": [">"]}}


def replicator(store_id: str, *, delivers: Iterable[str] = ()) -> Json:
    """Return the permissions of a replicator with a user of its own.

    Its tasks read remote origins with the same user; `delivers` are the prefixes of `external.deliver`.
    """
    reading = [f"{api}.{endpoint}" for api in ("$JS.API", "$JS.*.API") for endpoint in _READING]
    own = [f"$HEADWATER.{store_id}.REPLICATION.>", "$JS.FC.>", "$JS.ACK.>"]
    inboxes = ["_INBOX.>", f"$HEADWATER.{store_id}.INBOX.>", *(f"{prefix}.>" for prefix in delivers)]
    return {"publish": {"allow": [*own, *reading]}, "subscribe": {"allow": inboxes}}


def client(permissions: Mapping[str, Any] | None = None) -> Json:
    """Return the permissions of an ordinary user: those given, without the subjects of engines.

    Ordinary users may not subscribe to the API either, since they could then answer in the engine's place.
    """
    held = dict(permissions or {})
    return {
        **held,
        "publish": _without(held.get("publish"), (INTERNAL,)),
        "subscribe": _without(held.get("subscribe"), (INTERNAL, *_SERVED)),
    }


def closed(permissions: Mapping[str, Any] | None = None) -> Json:
    """Return the permissions of a user for links, which answer for the API of their own site."""
    held = dict(permissions or {})
    return {**held, **{way: _without(held.get(way), (INTERNAL,)) for way in ("publish", "subscribe")}}


def spoke(domain: str, *, subjects: Iterable[str] = (), reads: Iterable[tuple[str, str]] = ()) -> Json:
    """Return the permissions of the user with which a spoke's leaf node connects to its hub.

    The spoke answers for its own domain, sends what is published on its own `subjects`, and reads the domains
    and streams in `reads`. It can neither read, write nor change other streams. For that, the engines that it
    reaches must have their domain in ack subjects (`ack_format`): an ack can remove a message.
    """
    reading = [subject for other, stream in reads for subject in _copying(other, stream)]
    return {
        "publish": {"allow": [*_ANSWERS, *reading, *subjects]},
        "subscribe": {"allow": [*_ANSWERS, "$JS.FC.>", f"$JS.ACK.{domain}.>", f"$JS.{domain}.API.>"]},
    }


def _copying(domain: str, stream: str) -> Iterator[str]:
    """Yield the subjects that copying one stream of a domain publishes to."""
    yield from (f"$JS.{domain}.API.{endpoint}.{stream}" for endpoint in _STREAM_READING)
    yield from (f"$JS.{domain}.API.{endpoint}.{stream}.>" for endpoint in _CONSUMER_READING)
    yield f"$JS.FC.{stream}.>"
    yield f"$JS.ACK.{domain}.*.{stream}.>"
    # The older form, of a nats-server there. It has nine tokens, and so is not an ack of an engine.
    yield f"$JS.ACK.{stream}.*.*.*.*.*.*"


def _without(rules: Any, subjects: tuple[str, ...]) -> Json:
    """Return the rules of one direction with more subjects denied."""
    held: Json = dict(rules) if isinstance(rules, Mapping) else {"allow": rules} if rules else {}
    denied = held.get("deny", [])
    listed = [denied] if isinstance(denied, str) else list(denied)
    return {**held, "deny": [*listed, *(subject for subject in subjects if subject not in listed)]}
