"""Who may do what on a nats-server that carries engines: permissions as its configuration takes them.

An engine and its replicators speak on `$HEADWATER.>`. Whoever may publish there could hand in messages for
any stream of the account, whoever may subscribe there could read them; so it is closed to everybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]

INTERNAL = "$HEADWATER.>"
INTERNAL_PREFIX = INTERNAL.removesuffix(">").encode()
_SERVED = ("$JS.API.>", "$JS.*.API.>")
_ANSWERS = ("_INBOX.>", "$JSC.R.>", "_R_.>", "$JS.S.>", "$JS.M.>")
"""Where answers and deliveries go: inboxes of clients, and those of nats-server's own sources and mirrors."""
_READING = ("STREAM.INFO.>", "STREAM.MSG.GET.>", "DIRECT.GET.>", "CONSUMER.>")
"""What copying a stream takes of its API."""
_STREAM_READING = ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "CONSUMER.CREATE")
_CONSUMER_READING = (
    *("DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"),
    *("CONSUMER.INFO", "CONSUMER.MSG.NEXT", "CONSUMER.DELETE", "CONSUMER.RESET"),
)


def engine() -> Json:
    """Return the permissions of an engine's user: it takes every stream's subjects and answers everybody."""
    return {"publish": {"allow": [">"]}, "subscribe": {"allow": [">"]}}


def replicator(store_id: str, *, delivers: Iterable[str] = ()) -> Json:
    """Return the permissions of a replicator that does not connect as its engine does.

    Its tasks read origins elsewhere with the same user; `delivers` are the prefixes of `external.deliver`.
    """
    reading = [f"{api}.{endpoint}" for api in ("$JS.API", "$JS.*.API") for endpoint in _READING]
    own = [f"$HEADWATER.{store_id}.REPLICATION.>", "$JS.FC.>", "$JS.ACK.>"]
    inboxes = ["_INBOX.>", f"$HEADWATER.{store_id}.INBOX.>", *(f"{prefix}.>" for prefix in delivers)]
    return {"publish": {"allow": [*own, *reading]}, "subscribe": {"allow": inboxes}}


def client(permissions: Mapping[str, Any] | None = None) -> Json:
    """Return the permissions of an ordinary user: those given, without the subjects of engines.

    Nobody else may listen on the API either, for who does can answer in the engine's name.
    """
    held = dict(permissions or {})
    return {
        **held,
        "publish": _without(held.get("publish"), (INTERNAL,)),
        "subscribe": _without(held.get("subscribe"), (INTERNAL, *_SERVED)),
    }


def closed(permissions: Mapping[str, Any] | None = None) -> Json:
    """Return the permissions of a user that links use, which answer for the API of their own site."""
    held = dict(permissions or {})
    return {**held, **{way: _without(held.get(way), (INTERNAL,)) for way in ("publish", "subscribe")}}


def spoke(domain: str, *, subjects: Iterable[str] = (), reads: Iterable[tuple[str, str]] = ()) -> Json:
    """Return the permissions of the user with which a spoke's leaf node connects to its hub.

    The spoke answers for its own domain, sends what is published on its own `subjects`, and reads the domains
    and streams in `reads`; other streams it can neither read, write nor change. For that, the engines that
    it meets must name their domain in ack subjects (`ack_format`): an ack can remove a message.
    """
    reading = [subject for other, stream in reads for subject in _copying(other, stream)]
    return {
        "publish": {"allow": [*_ANSWERS, *reading, *subjects]},
        "subscribe": {"allow": [*_ANSWERS, "$JS.FC.>", f"$JS.ACK.{domain}.>", f"$JS.{domain}.API.>"]},
    }


def _copying(domain: str, stream: str) -> Iterator[str]:
    """Yield what copying one stream of a domain takes to be published."""
    yield from (f"$JS.{domain}.API.{endpoint}.{stream}" for endpoint in _STREAM_READING)
    yield from (f"$JS.{domain}.API.{endpoint}.{stream}.>" for endpoint in _CONSUMER_READING)
    yield f"$JS.FC.{stream}.>"
    yield f"$JS.ACK.{domain}.*.{stream}.>"
    # The older form, of a nats-server there; it has nine tokens, and so is no ack of an engine.
    yield f"$JS.ACK.{stream}.*.*.*.*.*.*"


def _without(rules: Any, subjects: tuple[str, ...]) -> Json:
    """Return the rules of one direction with more denied."""
    held: Json = dict(rules) if isinstance(rules, Mapping) else {"allow": rules} if rules else {}
    denied = held.get("deny", [])
    listed = [denied] if isinstance(denied, str) else list(denied)
    return {**held, "deny": [*listed, *(subject for subject in subjects if subject not in listed)]}
