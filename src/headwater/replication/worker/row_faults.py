"""Why a message fails in a pipeline: the reasons that Spark marks, and the results that a task refuses."""

from __future__ import annotations

from enum import IntEnum

from headwater.model import headers as header_block
from headwater.model.copied import SOURCE_HEADER
from headwater.model.subject import valid_literal

MOST_OUTPUTS = 10_000
"""How many messages one message may become."""
OUTPUT_BYTES = 32 << 20
"""How many bytes they may have together, if they are several: they are stored in one batch."""
LONGEST_SUBJECT = 4096
_NOT_TEXT = "\ufffd"


class Fault(IntEnum):
    """What Spark marks."""

    PAYLOAD = 1
    WHERE = 2
    SELECT = 3
    MANY = 4


def text_of(fault: int) -> str:
    """Return the reason for a fault; empty if only Spark knows it."""
    if fault == Fault.PAYLOAD:
        return "the payload does not match its schema, or is not text"
    return f"it became more than {MOST_OUTPUTS:,} messages" if fault == Fault.MANY else ""


def subject_fault(subject: str | None, origin: str) -> str:
    """Return why a message cannot have this subject; empty if it can."""
    if subject is None:
        return "the subject is null"
    is_odd = subject.startswith(_NOT_TEXT) and subject != origin
    if is_odd or not valid_literal(subject) or not subject.isprintable() or len(subject) > LONGEST_SUBJECT:
        return f"{subject[:100]!r} is not a valid subject of a message"
    return ""


def header_pairs(given: list[tuple[str, object]] | None) -> list[tuple[bytes, bytes]] | str:
    """Return selected headers as they are stored, or why they cannot be; conditions are left out."""
    pairs: list[tuple[bytes, bytes]] = []
    for name, value in given or ():
        if not name or not name.isprintable() or ":" in name or " " in name or not name.isascii():
            return f"{name[:100]!r} is not the name of a header"
        raw = name.encode()
        if raw == SOURCE_HEADER or raw.startswith(header_block.DEMANDS):
            continue
        for text in [value] if isinstance(value, str) else list(value or ()):  # type: ignore[call-overload]
            if text is None:
                continue
            if "\r" in text or "\n" in text:
                return f"the header {name} has a line end"
            pairs.append((raw, text.encode()))
    return pairs
