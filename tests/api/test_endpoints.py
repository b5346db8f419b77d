"""Subjects lead to their endpoints, and every endpoint is in the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.endpoints import ENDPOINTS, find

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


@pytest.mark.parametrize(
    ("subject", "response", "stream", "consumer"),
    [
        ("INFO", "account_info_response", "", ""),
        ("STREAM.NAMES", "stream_names_response", "", ""),
        ("STREAM.INFO.S", "stream_info_response", "S", ""),
        ("STREAM.INFO.NAMES", "stream_info_response", "NAMES", ""),
        ("STREAM.MSG.GET.S", "stream_msg_get_response", "S", ""),
        ("CONSUMER.CREATE.S", "consumer_create_response", "S", ""),
        ("CONSUMER.CREATE.S.c", "consumer_create_response", "S", "c"),
        ("CONSUMER.CREATE.S.c.a.b.>", "consumer_create_response", "S", "c"),
        ("CONSUMER.DURABLE.CREATE.S.c", "consumer_create_response", "S", "c"),
        ("CONSUMER.LEADER.STEPDOWN.S.c", "consumer_leader_stepdown_response", "S", "c"),
    ],
)
def test_a_subject_leads_to_its_endpoint(subject: str, response: str, stream: str, consumer: str) -> None:
    found = find(subject)
    assert found is not None
    assert (found.endpoint.response, found.stream, found.consumer) == (response, stream, consumer)
    assert found.endpoint.type == f"io.nats.jetstream.api.v1.{response}"


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "FOO",
        "STREAM",
        "STREAM.FOO",
        "STREAM.INFO",
        "STREAM.INFO.",
        "STREAM.INFO.a.b",
        "STREAM.CREATE.a.b",
        "STREAM.TEMPLATE.NAMES",
        "CONSUMER.INFO.S",
        "CONSUMER.CREATE..c.f",
        "CONSUMER.CREATE.S.c..f",
        "META.LEADER.STEPDOWN",
        "stream.info.S",
    ],
)
def test_other_subjects_lead_nowhere(subject: str) -> None:
    assert find(subject) is None


def test_no_two_endpoints_share_a_pattern() -> None:
    patterns = [endpoint.pattern for endpoint in ENDPOINTS]
    assert len(set(patterns)) == len(patterns)


def test_every_endpoint_is_in_the_reference_with_its_type() -> None:
    page = REFERENCE.read_text()
    for endpoint in ENDPOINTS:
        assert f"`{endpoint.pattern}`" in page, endpoint.pattern
        assert f"`{endpoint.response}`" in page, endpoint.response
