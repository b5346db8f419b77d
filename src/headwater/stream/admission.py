"""Whether a published message may enter a stream: nats-server's checks, in its order, as a pure rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.stream import Discard, StreamConfig
from headwater.model.times import SECOND, parse_duration
from headwater.stream.ledger import NEVER, Ledger

MAX_HEADER_BYTES = 65_535
LONGEST_TTL_NS = 1 << 62
"""So that the time at which a message expires can be written down."""
MAX_INCREMENT_DIGITS = 1000
_INTEGER = re.compile(rb"[+-]?[0-9]+", flags=re.ASCII)
_EXPECTED = b"Nats-Expected-"


class Admitted(NamedTuple):
    """What the stream must do with a message that may enter."""

    message_id: bytes = b""
    ttl_ns: int | None = None
    rollup: bytes = b""
    increment: int | None = None


class Duplicate(NamedTuple):
    """A message id that was stored before, at this sequence."""

    seq: int


PLAIN = Admitted()


class Admission:
    """The checks that the config of one stream asks for.

    `last_of(pattern)` returns the newest sequence on the subjects that a pattern matches, 0 if there is none.
    """

    def __init__(self, config: StreamConfig, ledger: Ledger, last_of: Callable[[bytes], int]) -> None:
        self._config = config
        self._ledger = ledger
        self._last_of = last_of
        self._name = config.name.encode()
        self._refuses_new = config.discard == Discard.NEW

    def check(
        self, subject: bytes, headers: bytes, data: bytes, now_ns: int, last_seq: int
    ) -> Admitted | Duplicate:
        """Return what to do with the message; raise the ApiError that refuses it."""
        config = self._config
        if config.sealed:
            raise api_error("stream_sealed")
        admitted = PLAIN
        if b"\r\nNats-" in headers:
            verdict = self._check_headers(subject, headers, data, now_ns, last_seq)
            if isinstance(verdict, Duplicate):
                return verdict
            admitted = verdict
        if config.allow_msg_counter and admitted.increment is None:
            raise api_error("message_incr_missing")
        self._check_size(headers, data)
        if self._refuses_new:
            self._check_room(subject, headers, data)
        return admitted

    def _check_headers(
        self, subject: bytes, headers: bytes, data: bytes, now_ns: int, last_seq: int
    ) -> Admitted | Duplicate:
        get = header_block.get
        increment = self._increment(headers, data)
        expected_stream = get(headers, b"Nats-Expected-Stream")
        if expected_stream and expected_stream != self._name:
            raise api_error("stream_not_match")
        ttl = get(headers, b"Nats-TTL")
        if ttl and not self._config.allow_msg_ttl:
            raise api_error("message_ttl_disabled")
        if _EXPECTED in headers:
            self._check_expected_sequences(subject, headers, last_seq)
        if get(headers, b"Nats-Schedule"):
            raise api_error("message_schedules_disabled")
        if get(headers, b"Nats-Stream-Source"):
            raise api_error("message_source_hdr_not_allowed")
        message_id = b""
        if self._ledger.dedupe.window_ns:
            message_id = get(headers, b"Nats-Msg-Id") or b""
            seq = self._ledger.dedupe.find(message_id, now_ns) if message_id else None
            if seq is not None:
                return Duplicate(seq)
        expected_id = get(headers, b"Nats-Expected-Last-Msg-Id")
        if expected_id and expected_id != self._ledger.last_message_id:
            raise api_error("stream_wrong_last_msg_id", id=_text(self._ledger.last_message_id))
        rollup = self._rollup(headers)
        return Admitted(message_id, parse_ttl(ttl) if ttl else None, rollup, increment)

    def _check_expected_sequences(self, subject: bytes, headers: bytes, last_seq: int) -> None:
        get = header_block.get
        expected = get(headers, b"Nats-Expected-Last-Subject-Sequence")
        other = get(headers, b"Nats-Expected-Last-Subject-Sequence-Subject")
        if expected:
            actual = self._last_of(other or subject)
            if _number(expected) != actual:
                raise api_error("stream_wrong_last_sequence", seq=actual)
        elif other:
            raise api_error("stream_expected_last_seq_per_subject_invalid")
        expected = get(headers, b"Nats-Expected-Last-Sequence")
        if expected and _number(expected) != last_seq:
            raise api_error("stream_wrong_last_sequence", seq=last_seq)

    def _increment(self, headers: bytes, data: bytes) -> int | None:
        value = header_block.get(headers, b"Nats-Incr")
        if value is None:
            return None
        if not _INTEGER.fullmatch(value) or len(value) > MAX_INCREMENT_DIGITS:
            raise api_error("message_incr_invalid")
        if not self._config.allow_msg_counter:
            raise api_error("message_incr_disabled")
        if data:
            raise api_error("message_incr_payload")
        if _EXPECTED in headers or header_block.get(headers, b"Nats-Rollup"):
            raise api_error("message_incr_invalid")
        return int(value)

    def _rollup(self, headers: bytes) -> bytes:
        value = header_block.get(headers, b"Nats-Rollup")
        if not value:
            return b""
        if not self._config.allow_rollup_hdrs or self._config.deny_purge:
            raise api_error("stream_rollup_failed", err="rollup not permitted")
        kind = value.lower()
        if kind not in (b"sub", b"all"):
            raise api_error("stream_rollup_failed", err=f'rollup value invalid: "{_text(kind)}"')
        return kind

    def _check_size(self, headers: bytes, data: bytes) -> None:
        limit = self._config.max_msg_size
        if limit >= 0 and len(headers) + len(data) > limit:
            raise api_error("stream_message_exceeds_maximum")
        if len(headers) > MAX_HEADER_BYTES:
            raise api_error("stream_header_exceeds_maximum")

    def _check_room(self, subject: bytes, headers: bytes, data: bytes) -> None:
        """Refuse what `discard: new` has no room for; a message that replaces another may enter."""
        config, ledger = self._config, self._ledger
        limit = config.max_msgs_per_subject
        replaces = limit > 0 and ledger.subjects.count.get(subject, 0) >= limit
        if replaces and config.discard_new_per_subject:
            raise _full("maximum messages per subject exceeded")
        if 0 < config.max_msgs <= ledger.messages and not replaces:
            raise _full("maximum messages exceeded")
        size = len(headers) + len(data)
        if 0 < config.max_bytes <= ledger.size + size and not (replaces and self._frees(subject, size)):
            raise _full("maximum bytes exceeded")

    def _frees(self, subject: bytes, size: int) -> bool:
        """Return whether the message that one of this size replaces makes room enough for it."""
        history = self._ledger.subjects.history
        return history is None or history[subject][0][1] > size


def parse_ttl(value: bytes) -> int:
    """Return the time to live in nanoseconds, NEVER, or 0 for none; raise if it has no sense."""
    text = value.decode(errors="replace")
    if text == "never":
        return NEVER
    if text.isascii() and text.isdigit() and len(text) < 20:
        return min(int(text) * SECOND, LONGEST_TTL_NS)
    duration = parse_duration(text)
    if duration is None or duration < SECOND:
        raise api_error("message_ttl_invalid")
    return min(duration // SECOND * SECOND, LONGEST_TTL_NS)


def stored_ttl(headers: bytes) -> int | None:
    """Return the time to live that a stored message carries; one that cannot be read counts as none."""
    value = header_block.get(headers, b"Nats-TTL")
    if not value:
        return None
    try:
        return parse_ttl(value)
    except ApiError:
        return None


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _full(reason: str) -> ApiError:
    return api_error("stream_store_failed", err=reason)


def _number(value: bytes) -> int:
    """Return a sequence given in a header, or -1, which equals none."""
    return int(value) if value.isdigit() and len(value) < 20 else -1
