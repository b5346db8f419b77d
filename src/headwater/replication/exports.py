"""The exports that another account needs so that its streams can be copied, and the errors if one is missing.

An account shows other accounts only what its exports name. nats-server's own sources need three of them: the
API that creates consumers, the subjects they deliver to, and the subjects of flow control. Headwater needs
the same. With more of the API exported, lag is measured without a consumer, and ranges are read in bulk.
"""

from __future__ import annotations

import re

_ENDPOINT = re.compile(r"^(?P<prefix>.*?)\.(?P<endpoint>(?:STREAM|CONSUMER|DIRECT)\..+)$")
API = "$JS.API"


def unanswered(subject: str) -> str:
    """Return why a subject of an origin's API may have no responders, with the config lines that fix it."""
    found = _ENDPOINT.match(subject)
    if found is None or found["prefix"] == API:
        return f"no responders on {subject}"
    exported = f"{API}.{_family(found['endpoint'])}"
    imported = f"{found['prefix']}.{_family(found['endpoint'])}"
    return (
        f"no responders on {subject}: the origin is unreachable, or, if it is in another account, "
        f'that account lacks exports: [{{service: "{exported}"}}] or this one '
        f'imports: [{{service: {{account: …, subject: "{exported}"}}, to: "{imported}"}}]'
    )


def undelivered(deliver: str) -> str:
    """Return why nothing arrives on the subjects that an origin was asked to deliver to."""
    if not deliver:
        return (
            "the consumer at the origin is silent: if the origin is in another account, set external.deliver "
            "to a prefix that this account imports"
        )
    return (
        f"nothing arrives on {deliver}.>: the origin's account lacks exports: "
        f'[{{stream: "{deliver}.>"}}] or this account '
        f'imports: [{{stream: {{account: …, subject: "{deliver}.>"}}}}]'
    )


def unanswered_flow(subject: str) -> str:
    """Return why flow control replies have no responders, without which deliveries stop."""
    stream = subject.split(".")[2] if subject.startswith("$JS.FC.") and subject.count(".") > 2 else "…"
    allowed = f"$JS.FC.{stream}.>"
    return (
        f"no responders for the flow control reply on {subject}: the origin's account lacks exports: "
        f'[{{service: "{allowed}"}}] or this account '
        f'imports: [{{service: {{account: …, subject: "{allowed}"}}}}]'
    )


def broken_off(subject: str) -> str:
    """Return why the rest of a pull never arrives: by default an export allows one response only."""
    found = _ENDPOINT.match(subject)
    family = f"{API}.{_family(found['endpoint'])}" if found else subject
    return (
        f"the responses to a request on {subject} break off: the link is lost, or, if the origin is in "
        "another account, that account lacks response: stream in "
        f'exports: [{{service: "{family}", response: stream}}]'
    )


def unacknowledged(ack_key: str) -> str:
    """Return why acks that release messages at their origin are not confirmed."""
    allowed = f"{ack_key.rpartition('.')[0]}.>"
    return (
        f"acknowledgements on {ack_key}.> are not confirmed: if the origin is in another account, that one "
        f'lacks exports: [{{service: "{allowed}"}}] or this account '
        f'imports: [{{service: {{account: …, subject: "{allowed}"}}}}]'
    )


def needed_for_queue(stream: str) -> list[str]:
    """Return the exports that let another account copy a stream that removes acknowledged messages."""
    return [
        f'{{ service: "{API}.CONSUMER.>", response: stream }}',
        f'{{ service: "$JS.ACK.{stream}.>" }}',
        f'{{ service: "{API}.STREAM.INFO.{stream}" }}',
    ]


def needed(stream: str, deliver: str) -> list[str]:
    """Return the exports, as lines of nats-server's configuration, that let another account copy a stream.

    The first three are those that nats-server's own sources need as well.
    """
    return [
        f'{{ service: "{API}.CONSUMER.>" }}',
        f'{{ stream: "{deliver}.>" }}',
        f'{{ service: "$JS.FC.{stream}.>" }}',
        f'{{ service: "{API}.STREAM.INFO.{stream}" }}',
        f'{{ service: "{API}.STREAM.MSG.GET.{stream}" }}',
        f'{{ service: "{API}.DIRECT.GET.{stream}", response: stream }}',
    ]


def _family(endpoint: str) -> str:
    """Return the subjects that are exported together: the whole consumer API, else the endpoint alone."""
    return "CONSUMER.>" if endpoint.startswith("CONSUMER.") else endpoint
