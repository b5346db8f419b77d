"""Counted nouns in messages for people: `1 stream`, `2 streams`, `1,200 messages`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, in the plural unless there is exactly one."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
