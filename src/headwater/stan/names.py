"""Names of channels and of their streams."""

from __future__ import annotations

import re

from headwater.model.names import MAX_NAME_LENGTH
from headwater.model.subject import valid_subject

_ESCAPED = re.compile(r"=([0-9A-F]{2})")
_NEVER = frozenset("/*>")
_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]+")


def valid_channel(name: str) -> bool:
    """Return whether a channel name is valid: a literal subject without a slash."""
    return (
        valid_subject(name)
        and _NEVER.isdisjoint(name)
        and name.isprintable()
        and len(stream_name(name).encode()) <= MAX_NAME_LENGTH
    )


def valid_pattern(name: str) -> bool:
    """Return whether a channel name or pattern is valid."""
    return valid_subject(name) and "/" not in name


def valid_client_id(name: str) -> bool:
    """Return whether a client id is valid."""
    return _CLIENT_ID.fullmatch(name) is not None


def stream_name(channel: str) -> str:
    """Return the name of a channel's stream: a dot is a tilde there; a tilde, an equals sign, a backslash
    are `=` and two digits."""
    escaped = "".join(f"={ord(c):02X}" if c in "~=\\" else c for c in channel)
    return escaped.replace(".", "~")


def channel_name(stream: str) -> str:
    """Return the channel whose stream has this name."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), stream.replace("~", "."))
