"""What another account must export for a stream of it to be copied, and how a lack is told in one sentence.

An account shows nothing to others but what its exports name. nats-server's own sources need three of them:
the API that makes consumers, the subjects they deliver to, and the subjects of flow control. Ours need the
same; with more of the API exported, lag is measured without a consumer, and ranges are read in bulk.
"""

from __future__ import annotations

import re

_ENDPOINT = re.compile(r"^(?P<prefix>.*?)\.(?P<endpoint>(?:STREAM|CONSUMER|DIRECT)\..+)$")
API = "$JS.API"


def unanswered(subject: str) -> str:
    """Return why nobody may answer on a subject of an origin's API, with the lines that would mend it."""
    found = _ENDPOINT.match(subject)
    if found is None or found["prefix"] == API:
        return f"no responders on {subject}"
    exported = f"{API}.{_family(found['endpoint'])}"
    imported = f"{found['prefix']}.{_family(found['endpoint'])}"
    return (
        f"no responders on {subject}: the origin is away, or, where it is another account's, "
        f'that one lacks exports: [{{service: "{exported}"}}] or this one '
        f'imports: [{{service: {{account: …, subject: "{exported}"}}, to: "{imported}"}}]'
    )


def undelivered(deliver: str) -> str:
    """Return why nothing arrives on the subjects that an origin was asked to deliver to."""
    if not deliver:
        return (
            "the consumer at the origin is silent: where it is another account's, give external.deliver "
            "a prefix that this one imports"
        )
    return (
        f"nothing arrives on {deliver}.>: the origin's account lacks exports: "
        f'[{{stream: "{deliver}.>"}}] or this one '
        f'imports: [{{stream: {{account: …, subject: "{deliver}.>"}}}}]'
    )


def unheeded(subject: str) -> str:
    """Return why nobody takes the answers of flow control, without which deliveries stop."""
    stream = subject.split(".")[2] if subject.startswith("$JS.FC.") and subject.count(".") > 2 else "…"
    allowed = f"$JS.FC.{stream}.>"
    return (
        f"nobody takes the answer of flow control on {subject}: the origin's account lacks exports: "
        f'[{{service: "{allowed}"}}] or this one imports: [{{service: {{account: …, subject: "{allowed}"}}}}]'
    )


def broken_off(subject: str) -> str:
    """Return why the rest of a pull never comes: an export lets one answer pass if nothing else is said."""
    found = _ENDPOINT.match(subject)
    family = f"{API}.{_family(found['endpoint'])}" if found else subject
    return (
        f"what was asked for on {subject} breaks off: the link is lost, or, where the origin is another "
        f'account\'s, that one lacks response: stream in exports: [{{service: "{family}", response: stream}}]'
    )


def unacknowledged(ack_key: str) -> str:
    """Return why nobody confirms the acknowledgements that let messages go at their origin."""
    allowed = f"{ack_key.rpartition('.')[0]}.>"
    return (
        f"acknowledgements on {ack_key}.> are not confirmed: where the origin is another account's, that one "
        f'lacks exports: [{{service: "{allowed}"}}] or this one '
        f'imports: [{{service: {{account: …, subject: "{allowed}"}}}}]'
    )


def needed_for_queue(stream: str) -> list[str]:
    """Return the exports that let another account copy a stream which lets go of what is acknowledged."""
    return [
        f'{{ service: "{API}.CONSUMER.>", response: stream }}',
        f'{{ service: "$JS.ACK.{stream}.>" }}',
        f'{{ service: "{API}.STREAM.INFO.{stream}" }}',
    ]


def needed(stream: str, deliver: str) -> list[str]:
    """Return the exports, as lines of nats-server's config, that let another account copy a stream.

    The first three are what nats-server's own sources need as well.
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
    """Return the subjects that are exported together: all about consumers, else the endpoint alone."""
    return "CONSUMER.>" if endpoint.startswith("CONSUMER.") else endpoint
