"""Names of streams and consumers, and the directory name of a stream."""

from __future__ import annotations

import hashlib

MAX_NAME_LENGTH = 255
_FORBIDDEN = frozenset(" \t\r\n\f.*>\\/")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$=+@")
_MAX_DIRECTORY_LENGTH = 150
_HASH_LENGTH = 32


def valid_asset_name(name: str) -> bool:
    """Return whether a name is valid for a stream or a consumer, regardless of its length."""
    return bool(name) and _FORBIDDEN.isdisjoint(name)


def valid_stream_name(name: str) -> bool:
    """Return whether a name is valid for a stream."""
    return valid_asset_name(name) and len(name.encode()) <= MAX_NAME_LENGTH


def valid_consumer_name(name: str) -> bool:
    """Return whether a name is valid for a consumer."""
    return valid_stream_name(name)


def directory_name(name: str) -> str:
    """Return a file name for this name: readable, safe, and unique.

    Other bytes are written as `~` and two digits, because readers of tables treat paths as URLs and decode a
    `%`. Long names are truncated and get a hash. Encoding never produces `~~`, so that no short name equals a
    truncated one.
    """
    encoded = "".join(chr(b) if b in _PLAIN else f"~{b:02X}" for b in name.encode())
    if len(encoded) <= _MAX_DIRECTORY_LENGTH:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return encoded[: _MAX_DIRECTORY_LENGTH - _HASH_LENGTH - 2] + "~~" + digest
