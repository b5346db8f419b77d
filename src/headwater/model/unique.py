"""Unique names."""

from __future__ import annotations

import secrets

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 22


def unique_id() -> str:
    """Return 22 letters and digits, usable as a token of a subject."""
    number = secrets.randbits(131)
    letters = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        letters.append(_DIGITS[digit])
    return "".join(letters)
