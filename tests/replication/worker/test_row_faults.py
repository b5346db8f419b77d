"""Why a message fails in a pipeline."""

from __future__ import annotations

import pytest

from headwater.replication.worker.row_faults import Fault, header_pairs, subject_fault, text_of


@pytest.mark.parametrize(
    "subject", [None, "", "a b", "a..b", ".a", "a.", "*", "a.>", "a\tb", "a\x00", "\ufffdx"]
)
def test_an_invalid_subject_is_a_fault(subject: str | None) -> None:
    assert subject_fault(subject, "other")


def test_a_valid_subject_and_one_of_the_origin_that_is_not_text_are_none() -> None:
    assert subject_fault("a.b-ü.c*d", "x") == ""
    assert subject_fault("\ufffdÿ", "\ufffdÿ") == ""


def test_headers_are_checked_and_conditions_left_out() -> None:
    given = [
        ("A", ["1", None, "2"]),
        ("B", "x"),
        ("C", None),
        ("Nats-Stream-Source", "y"),
        ("Nats-Expected-X", "z"),
    ]
    assert header_pairs(given) == [(b"A", b"1"), (b"A", b"2"), (b"B", b"x")]  # type: ignore[arg-type]
    assert header_pairs(None) == []
    assert header_pairs([("A", "1\r\nB: 2")]) == "the header A has a line end"
    assert "not the name of a header" in header_pairs([("A: x", "1")])


def test_only_spark_knows_why_sql_fails() -> None:
    assert text_of(Fault.WHERE) == text_of(Fault.SELECT) == ""
    assert "schema" in text_of(Fault.PAYLOAD)
    assert "10,000" in text_of(Fault.MANY)
