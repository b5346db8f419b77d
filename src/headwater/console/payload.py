"""A payload for people: JSON as a tree that folds, text, or a hex dump, each bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHOWN_BYTES = 64 * 1024
"""More of a payload is not shown; it can be downloaded."""
MOST_DEPTH = 32
MOST_NODES = 5000
_ROW = 16


@dataclass(frozen=True)
class PayloadNode:
    """One value of a JSON document."""

    label: str
    """The name of a member or the place in a list; empty at the top."""
    text: str
    """The value as JSON, or the number of members of an object or list."""
    kind: str
    children: tuple[PayloadNode, ...] = ()


@dataclass(frozen=True)
class Payload:
    """How a payload can be shown."""

    size: int
    tree: PayloadNode | None
    """None if it is not JSON, or too large or too deep to be shown as a tree."""
    text: str | None
    """None if it is not UTF-8."""
    hex: str
    hidden: int
    """How many bytes are not shown."""

    @property
    def kind(self) -> str:
        """Return how it is best shown: json, text or hex."""
        if self.tree is not None:
            return "json"
        return "text" if self.text is not None else "hex"


def payload_of(data: bytes) -> Payload:
    """Return a payload in every form that fits it."""
    shown = data[:SHOWN_BYTES]
    return Payload(
        size=len(data),
        tree=_tree(data) if len(data) <= SHOWN_BYTES else None,
        text=_text(shown, is_whole=len(shown) == len(data)),
        hex=hex_dump(shown),
        hidden=len(data) - len(shown),
    )


def parsed_json(data: bytes) -> Any:
    """Return a JSON document; raise ValueError if the payload is none."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("the document is too deep") from None


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, sixteen bytes, and what of them is ASCII."""
    rows = (data[start : start + _ROW] for start in range(0, len(data), _ROW))
    return "\n".join(_hex_row(place * _ROW, row) for place, row in enumerate(rows))


def _hex_row(offset: int, row: bytes) -> str:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{offset:08x}  {row.hex(' ').ljust(_ROW * 3 - 1)}  {letters}"


def _text(data: bytes, *, is_whole: bool) -> str | None:
    """Return text with control characters made visible; None for what is not UTF-8."""
    for cut in range(1 if is_whole else 4):  # a letter may be cut in two at the end
        try:
            text = data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
        return visible_text(text)
    return None


def visible_text(text: str) -> str:
    """Return text in which control characters, and those that reorder text, are escapes."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(letter: str) -> str:
    """Return a letter, or its escape."""
    code = ord(letter)
    is_control = (code < 32 and letter not in "\n\t") or 0x7F <= code < 0xA0
    is_half = 0xD800 <= code <= 0xDFFF  # of a pair, which cannot be encoded alone
    reorders = code in (0x061C, 0x200E, 0x200F) or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return f"\\u{code:04x}" if is_control or is_half or reorders else letter


def _tree(data: bytes) -> PayloadNode | None:
    if data[:1].isdigit() or not data.strip():
        return None  # a bare number is better shown as text
    try:
        return _node("", parsed_json(data), 0, [MOST_NODES])
    except ValueError:
        return None


def _node(label: str, value: Any, depth: int, left: list[int]) -> PayloadNode:
    """Return a node with its members; raise ValueError for a document that is too large or too deep."""
    left[0] -= 1
    if left[0] < 0 or depth > MOST_DEPTH:
        raise ValueError("too large to show as a tree")
    if isinstance(value, dict):
        members = tuple(_node(visible_text(name), inner, depth + 1, left) for name, inner in value.items())
        return PayloadNode(label, f"{{{len(members)}}}", "object", members)
    if isinstance(value, list):
        items = tuple(_node(str(place), inner, depth + 1, left) for place, inner in enumerate(value))
        return PayloadNode(label, f"[{len(items)}]", "array", items)
    kind = "string" if isinstance(value, str) else "null" if value is None else "number"
    return PayloadNode(label, visible_text(json.dumps(value, ensure_ascii=False)), kind)
