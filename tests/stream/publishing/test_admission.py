"""What may enter a stream: nats-server's checks, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors import ApiError
from headwater.model.stream import Discard
from headwater.stream.ledger import Ledger
from headwater.stream.publishing.admission import MAX_HEADER_BYTES, PLAIN, Admission, Admitted, Duplicate
from headwater.stream.retention.removal import FILE_OVERHEAD
from headwater.stream.timing.time_to_live import NEVER
from stream.streams import SECOND, config_of, headers

NOW = 1_000 * SECOND


class Gate:
    """An admission over a ledger that holds three messages: two on `a`, one on `b`."""

    def __init__(self, **fields: Any) -> None:
        history = 0 < fields.get("max_msgs_per_subject", -1) <= 64
        self.ledger = Ledger(FILE_OVERHEAD, dedupe_window_ns=120 * SECOND, history=history)
        self.ledger.append([1, 2, 3], [NOW - 3, NOW - 2, NOW - 1], [b"a", b"b", b"a"], [40, 40, 40])
        self.ledger.note_headers(3, NOW - 1, headers(Nats_Msg_Id="third"))
        self.admission = Admission(config_of(**fields), self.ledger, self.last_of)

    def last_of(self, pattern: bytes) -> int:
        index = self.ledger.subjects
        return max((index.last[subject] for subject in index.matching(pattern.decode())), default=0)

    def check(self, block: bytes = b"", data: bytes = b"", subject: bytes = b"a") -> Admitted | Duplicate:
        return self.admission.check(subject, block, data, NOW, self.ledger.last_seq)

    def refusal(self, block: bytes = b"", data: bytes = b"", subject: bytes = b"a") -> ApiError:
        with pytest.raises(ApiError) as refused:
            self.check(block, data, subject)
        return refused.value


def test_a_plain_message_enters_and_asks_for_nothing() -> None:
    assert Gate().check(data=b"x") == PLAIN
    block = headers(Key="value")
    assert Gate().check(block) == Admitted(headers=block)


def test_nothing_enters_a_sealed_stream() -> None:
    assert Gate(sealed=True).refusal().name == "stream_sealed"


def test_a_message_id_is_remembered_and_its_second_use_is_a_duplicate() -> None:
    gate = Gate()
    assert gate.check(headers(Nats_Msg_Id="third")) == Duplicate(3)
    admitted = gate.check(headers(Nats_Msg_Id="fourth"))
    assert isinstance(admitted, Admitted)
    assert admitted.message_id == b"fourth"


def test_without_a_window_no_message_is_a_duplicate() -> None:
    gate = Gate()
    gate.ledger.dedupe.window_ns = 0
    assert isinstance(gate.check(headers(Nats_Msg_Id="third")), Admitted)


def test_a_duplicate_is_reported_even_where_the_last_id_or_a_rollup_would_refuse_it() -> None:
    gate = Gate()
    assert gate.check(
        headers(Nats_Msg_Id="third", Nats_Expected_Last_Msg_Id="other", Nats_Rollup="sub")
    ) == Duplicate(3)


@pytest.mark.parametrize(
    ("block", "subject"),
    [
        (headers(Nats_Expected_Stream="S"), b"a"),
        (headers(Nats_Expected_Last_Sequence="3"), b"a"),
        (headers(Nats_Expected_Last_Subject_Sequence="3"), b"a"),
        (headers(Nats_Expected_Last_Subject_Sequence="2"), b"b"),
        (headers(Nats_Expected_Last_Subject_Sequence="0"), b"c"),
        (
            headers(Nats_Expected_Last_Subject_Sequence="2", Nats_Expected_Last_Subject_Sequence_Subject="b"),
            b"a",
        ),
        (
            headers(Nats_Expected_Last_Subject_Sequence="3", Nats_Expected_Last_Subject_Sequence_Subject="*"),
            b"b",
        ),
        (headers(Nats_Expected_Last_Msg_Id="third"), b"a"),
    ],
)
def test_an_expectation_that_holds_lets_the_message_in(block: bytes, subject: bytes) -> None:
    assert Gate().check(block, subject=subject) == Admitted(headers=block)


@pytest.mark.parametrize(
    ("block", "name", "description"),
    [
        (headers(Nats_Expected_Stream="T"), "stream_not_match", "expected stream does not match"),
        (
            headers(Nats_Expected_Last_Sequence="2"),
            "stream_wrong_last_sequence",
            "wrong last sequence: 3",
        ),
        (
            headers(Nats_Expected_Last_Subject_Sequence="2"),
            "stream_wrong_last_sequence",
            "wrong last sequence: 3",
        ),
        (
            headers(Nats_Expected_Last_Sequence="three"),
            "stream_wrong_last_sequence",
            "wrong last sequence: 3",
        ),
        (
            headers(Nats_Expected_Last_Sequence="9" * 30),
            "stream_wrong_last_sequence",
            "wrong last sequence: 3",
        ),
        (
            headers(Nats_Expected_Last_Subject_Sequence_Subject="b"),
            "stream_expected_last_seq_per_subject_invalid",
            "missing sequence for expected last sequence per subject",
        ),
        (
            headers(Nats_Expected_Last_Msg_Id="second"),
            "stream_wrong_last_msg_id",
            "wrong last msg ID: third",
        ),
        (
            headers(Nats_Stream_Source="origin"),
            "message_source_hdr_not_allowed",
            "message stream source header is not allowed",
        ),
    ],
)
def test_an_expectation_that_does_not_hold_is_refused_with_what_is_so(
    block: bytes, name: str, description: str
) -> None:
    refusal = Gate().refusal(block)
    assert (refusal.name, refusal.description) == (name, description)


def test_the_stream_is_checked_before_the_sequences_and_those_before_the_id() -> None:
    block = headers(
        Nats_Expected_Stream="T", Nats_Expected_Last_Sequence="9", Nats_Expected_Last_Msg_Id="other"
    )
    assert Gate().refusal(block).name == "stream_not_match"
    block = headers(Nats_Expected_Last_Sequence="9", Nats_Expected_Last_Msg_Id="other")
    assert Gate().refusal(block).name == "stream_wrong_last_sequence"


def test_a_message_larger_than_the_limit_is_refused_headers_included() -> None:
    block = headers(Key="value")
    gate = Gate(max_msg_size=len(block) + 4)
    assert gate.check(block, b"1234") == Admitted(headers=block)
    assert gate.refusal(block, b"12345").name == "stream_message_exceeds_maximum"
    assert gate.check(b"", b"x" * (len(block) + 4)) == PLAIN


def test_headers_beyond_64k_are_refused() -> None:
    large = headers(Key="v" * MAX_HEADER_BYTES)
    assert Gate().refusal(large).name == "stream_header_exceeds_maximum"


def test_a_rollup_says_what_it_replaces() -> None:
    gate = Gate(allow_rollup_hdrs=True)
    for value, kind in (("sub", b"sub"), ("ALL", b"all")):
        admitted = gate.check(headers(Nats_Rollup=value))
        assert isinstance(admitted, Admitted)
        assert admitted.rollup == kind
    refusal = gate.refusal(headers(Nats_Rollup="Some"))
    assert refusal.description == 'rollup value invalid: "some"'


@pytest.mark.parametrize(
    "fields", [{"allow_rollup_hdrs": False}, {"allow_rollup_hdrs": True, "deny_purge": True}]
)
def test_a_rollup_is_refused_where_nothing_may_be_purged(fields: dict[str, Any]) -> None:
    refusal = Gate(**fields).refusal(headers(Nats_Rollup="sub"))
    assert (refusal.name, refusal.description) == ("stream_rollup_failed", "rollup not permitted")


@pytest.mark.parametrize(("value", "ttl_ns"), [("5", 5 * SECOND), ("1m", 60 * SECOND), ("never", NEVER)])
def test_a_time_to_live_is_read_where_it_is_allowed(value: str, ttl_ns: int) -> None:
    admitted = Gate(allow_msg_ttl=True).check(headers(Nats_TTL=value))
    assert isinstance(admitted, Admitted)
    assert admitted.ttl_ns == ttl_ns


def test_a_time_to_live_is_refused_where_it_is_not_allowed_or_invalid() -> None:
    assert Gate().refusal(headers(Nats_TTL="5")).name == "message_ttl_disabled"
    assert Gate(allow_msg_ttl=True).refusal(headers(Nats_TTL="soon")).name == "message_ttl_invalid"
    assert Gate().refusal(headers(Nats_TTL="soon")).name == "message_ttl_invalid"


def test_a_message_lives_at_least_as_long_as_the_marker_that_would_follow_it() -> None:
    fields = {"allow_msg_ttl": True, "subject_delete_marker_ttl": 10 * SECOND}
    admitted = Gate(**fields).check(headers(Nats_TTL="2"))
    assert admitted == Admitted(ttl_ns=10 * SECOND, headers=headers(Nats_TTL="10"))
    admitted = Gate(**fields, max_msgs_per_subject=1).check(headers(Nats_TTL="2"))
    assert admitted == Admitted(ttl_ns=2 * SECOND, headers=headers(Nats_TTL="2"))


def test_increments_enter_a_counter_and_nothing_else_does() -> None:
    gate = Gate(allow_msg_counter=True)
    admitted = gate.check(headers(Nats_Incr="-12"))
    assert isinstance(admitted, Admitted)
    assert admitted.increment == -12
    assert gate.refusal().name == "message_incr_missing"
    assert gate.refusal(headers(Nats_Incr="1"), b"data").name == "message_incr_payload"
    for value in ("1.5", "one", "", "1 2", "٣"):
        block = headers(Nats_Incr=value)
        assert gate.refusal(block).name == ("message_incr_invalid" if value else "message_incr_missing")
    block = headers(Nats_Incr="1", Nats_Expected_Last_Sequence="3")
    assert gate.refusal(block).name == "message_incr_invalid"
    assert Gate().refusal(headers(Nats_Incr="1")).name == "message_incr_disabled"


def test_a_full_stream_that_discards_new_ones_takes_nothing_more() -> None:
    gate = Gate(max_msgs=3, discard=Discard.NEW)
    assert gate.refusal().description == "maximum messages exceeded"
    assert Gate(max_msgs=4, discard=Discard.NEW).check() == PLAIN
    assert Gate(max_msgs=3).check() == PLAIN, "discarding old ones it takes everything"


def test_bytes_are_counted_without_the_overhead_of_the_new_message() -> None:
    assert Gate(max_bytes=125, discard=Discard.NEW).check(data=b"1234") == PLAIN
    refusal = Gate(max_bytes=125, discard=Discard.NEW).refusal(data=b"12345")
    assert refusal.description == "maximum bytes exceeded"


def test_a_message_that_replaces_another_enters_a_full_stream() -> None:
    fields: dict[str, Any] = {"max_msgs": 3, "max_msgs_per_subject": 2, "discard": Discard.NEW}
    assert Gate(**fields).check(subject=b"a") == PLAIN
    assert Gate(**fields).refusal(subject=b"b").description == "maximum messages exceeded"
    refusal = Gate(**fields, discard_new_per_subject=True).refusal(subject=b"a")
    assert refusal.description == "maximum messages per subject exceeded"


def test_a_replacement_may_not_be_larger_than_what_it_replaces_leaves_room_for() -> None:
    fields: dict[str, Any] = {"max_bytes": 125, "max_msgs_per_subject": 2, "discard": Discard.NEW}
    assert Gate(**fields).check(data=b"x" * 39) == PLAIN
    assert Gate(**fields).refusal(data=b"x" * 40).description == "maximum bytes exceeded"


def test_a_batched_message_is_measured_before_anything_else_is_asked() -> None:
    gate = Gate(max_msg_size=4)
    gate.admission.check_batched(b"", b"1234")
    with pytest.raises(ApiError, match="exceeds maximum"):
        gate.admission.check_batched(b"", b"12345")
    with pytest.raises(ApiError, match="sealed"):
        Gate(sealed=True).admission.check_batched(b"", b"")


def test_clients_are_held_to_a_limit_below_that_of_the_server() -> None:
    ledger = Ledger(FILE_OVERHEAD)
    for config, client_limit, limit in ((-1, 10, 10), (5, 10, 5), (20, 10, 10), (5, -1, 5)):
        admission = Admission(config_of(max_msg_size=config), ledger, lambda pattern: 0, client_limit)
        admission.check(b"a", b"", b"x" * limit, 0, 0)
        with pytest.raises(ApiError, match="exceeds maximum"):
            admission.check(b"a", b"", b"x" * (limit + 1), 0, 0)
        with pytest.raises(ApiError, match="exceeds maximum"):
            admission.check_batched(b"", b"x" * (limit + 1))
