"""Whether a published message may enter a stream: nats-server's checks, in its order, as a pure rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.stream import Discard, StreamConfig
from headwater.stream.ledger import Ledger
from headwater.stream.timing.schedules import ScheduleRules, purged_by
from headwater.stream.timing.time_to_live import at_least, parse_ttl

MAX_HEADER_BYTES = 65_535
MAX_INCREMENT_DIGITS = 1000
_INTEGER = re.compile(rb"[+-]?[0-9]+", flags=re.ASCII)
_EXPECTED = b"Nats-Expected-"


class Admitted(NamedTuple):
    """What the stream must do with a message that may enter."""

    message_id: bytes = b""
    ttl_ns: int | None = None
    rollup: bytes = b""
    increment: int | None = None
    headers: bytes = b""
    """The header block to store."""
    ends_schedule: bytes = b""
    """The subject of a schedule that goes when the message is stored."""


class Duplicate(NamedTuple):
    """A message id that was stored before, at this sequence."""

    seq: int


PLAIN = Admitted()


class Admission:
    """The checks that the config of one stream asks for.

    `last_of(pattern)` returns the newest sequence on the subjects that a pattern matches, 0 if there is none.
    """

    def __init__(
        self,
        config: StreamConfig,
        ledger: Ledger,
        last_of: Callable[[bytes], int],
        client_limit: int = -1,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._last_of = last_of
        """Returns the newest sequence on the subjects that a pattern matches."""
        self._name = config.name.encode()
        limits = [limit for limit in (config.max_msg_size, client_limit) if limit >= 0]
        self.max_size = min(limits, default=None)
        """The largest headers and data together, None without a limit of ours."""
        self._refuses_new = config.discard == Discard.NEW
        """Whether a full stream refuses messages instead of removing old ones."""
        self.schedules = ScheduleRules(
            config.subjects, allowed=config.allow_msg_schedules, with_ttl=config.allow_msg_ttl
        )

    def check(
        self, subject: bytes, headers: bytes, data: bytes, now_ns: int, last_seq: int
    ) -> Admitted | Duplicate:
        """Return what to do with the message; raise the ApiError that refuses it."""
        config = self._config
        if config.sealed:
            raise api_error("stream_sealed")
        admitted = Admitted(headers=headers) if headers else PLAIN
        if b"\r\nNats-" in headers:
            verdict = self._check_headers(subject, headers, data, now_ns, last_seq)
            if isinstance(verdict, Duplicate):
                return verdict
            admitted = verdict
        if config.allow_msg_counter and admitted.increment is None:
            raise api_error("message_incr_missing")
        if admitted.increment is None:
            self.check_size(admitted.headers, data)
        if admitted.headers:
            admitted = self.with_ttl(admitted)
        if self._refuses_new:
            self._check_room(subject, headers, data)
        return admitted

    def _check_headers(
        self, subject: bytes, headers: bytes, data: bytes, now_ns: int, last_seq: int
    ) -> Admitted | Duplicate:
        get = header_block.get
        increment = self.increment(headers, data)
        self.check_stream(headers)
        if not self._config.allow_msg_ttl and _has_ttl(headers):
            raise api_error("message_ttl_disabled")
        if _EXPECTED in headers:
            self._check_expected_sequences(subject, headers, last_seq)
        headers = self.schedules.check(subject, headers, now_ns, self.is_schedule)
        self.check_source(headers)
        message_id = b""
        if self._ledger.dedupe.window_ns:
            message_id = get(headers, b"Nats-Msg-Id") or b""
            seq = self._ledger.dedupe.find(message_id, now_ns) if message_id else None
            if seq is not None:
                return Duplicate(seq)
        self.check_last_id(headers)
        rollup = self.rollup(headers)
        return Admitted(message_id, None, rollup, increment, headers, purged_by(headers))

    def check_batched(self, headers: bytes, data: bytes) -> None:
        """Refuse a message that no batch may hold."""
        if self._config.sealed:
            raise api_error("stream_sealed")
        self._check_limit(len(headers) + len(data))

    def _check_limit(self, size: int) -> None:
        if self.max_size is not None and size > self.max_size:
            raise api_error("stream_message_exceeds_maximum")

    def check_stream(self, headers: bytes) -> None:
        """Refuse a message that expects another stream."""
        expected = header_block.get(headers, b"Nats-Expected-Stream")
        if expected and expected != self._name:
            raise api_error("stream_not_match")

    def check_last_id(self, headers: bytes) -> None:
        """Refuse a message that expects another one to be the last."""
        expected, actual = (
            header_block.get(headers, b"Nats-Expected-Last-Msg-Id"),
            self._ledger.last_message_id,
        )
        if expected and expected != actual:
            raise api_error("stream_wrong_last_msg_id", id=_text(actual))

    def check_source(self, headers: bytes) -> None:
        """Refuse a message that claims to be from another stream."""
        if header_block.get(headers, b"Nats-Stream-Source"):
            raise api_error("message_source_hdr_not_allowed")

    def with_ttl(self, admitted: Admitted) -> Admitted:
        """Return the message with its time to live, which lasts at least as long as a delete marker would."""
        value = header_block.get(admitted.headers, b"Nats-TTL")
        if not value:
            return admitted
        headers, ttl_ns = admitted.headers, parse_ttl(value)
        if self._config.max_msgs_per_subject != 1:
            headers, ttl_ns = at_least(headers, ttl_ns, self._config.subject_delete_marker_ttl)
        return admitted._replace(headers=headers, ttl_ns=ttl_ns)

    def is_schedule(self, subject: bytes) -> bool | None:
        """Return whether the newest message of a subject is a schedule, None if there is none."""
        last_seq = self._last_of(subject)
        return self._ledger.schedules.seq_on(subject) == last_seq if last_seq else None

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

    def increment(self, headers: bytes, data: bytes) -> int | None:
        """Return what a message adds to its counter, None if it is no increment."""
        value = header_block.get(headers, b"Nats-Incr")
        if not value:
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

    def rollup(self, headers: bytes) -> bytes:
        """Return what a message replaces: `sub`, `all` or nothing."""
        value = header_block.get(headers, b"Nats-Rollup")
        if not value:
            return b""
        if not self._config.allow_rollup_hdrs or self._config.deny_purge:
            raise api_error("stream_rollup_failed", err="rollup not permitted")
        kind = value.lower()
        if kind not in (b"sub", b"all"):
            raise api_error("stream_rollup_failed", err=f'rollup value invalid: "{_text(kind)}"')
        return kind

    def check_size(self, headers: bytes, data: bytes) -> None:
        """Refuse what is too large."""
        self._check_limit(len(headers) + len(data))
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


def _has_ttl(headers: bytes) -> bool:
    """Return whether a message carries a time to live that can be read."""
    value = header_block.get(headers, b"Nats-TTL")
    try:
        return bool(value and parse_ttl(value))
    except ApiError:
        return False


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _full(reason: str) -> ApiError:
    return api_error("stream_store_failed", err=reason)


def _number(value: bytes) -> int:
    """Return a sequence given in a header, or -1, which equals none."""
    return int(value) if value.isdigit() and len(value) < 20 else -1
