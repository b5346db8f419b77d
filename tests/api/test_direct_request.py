"""Direct requests are understood, or refused with the status of nats-server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.api.direct_request import DirectRequest, Refusal, parse

TIME = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", b"408 Empty Request"),
        (b"{}", b"408 Empty Request"),
        (b'{"unknown":1}', b"408 Empty Request"),
        (b'{"batch":3}', b"408 Empty Request"),
        (b"{x", b"408 Malformed Request"),
        (b"[]", b"408 Malformed Request"),
        (b'{"seq":-1}', b"408 Malformed Request"),
        (b'{"seq":"1"}', b"408 Malformed Request"),
        (b'{"seq":18446744073709551616}', b"408 Malformed Request"),
        (b'{"seq":1,"batch":9223372036854775808}', b"408 Malformed Request"),
        (b'{"seq":1,"max_bytes":1%b}' % (b"0" * 400), b"408 Malformed Request"),
        (b'{"start_time":"soon"}', b"408 Malformed Request"),
        (b'{"multi_last":["a"],"up_to_time":"soon"}', b"408 Malformed Request"),
    ],
)
def test_a_body_that_asks_for_nothing_is_refused(body: bytes, status: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse(b"", body, b"")
    assert refused.value.status == b"NATS/1.0 %b\r\n\r\n" % status


@pytest.mark.parametrize(
    "members",
    [
        {"seq": 1, "last_by_subj": "a"},
        {"seq": 1, "start_time": TIME},
        {"start_time": TIME, "last_by_subj": "a"},
        {"last_by_subj": "a", "next_by_subj": "b"},
        {"last_by_subj": "a", "batch": 2},
        {"last_by_subj": "a", "multi_last": ["b"]},
        {"next_by_subj": "a", "multi_last": ["b"]},
        {"multi_last": ["b"], "up_to_seq": 3, "up_to_time": TIME},
    ],
)
def test_members_that_exclude_each_other_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        parse(b"", msgspec.json.encode(members), b"")
    assert refused.value.status == b"NATS/1.0 408 Bad Request\r\n\r\n"


def test_the_subject_behind_the_name_is_the_one_wanted() -> None:
    assert parse(b"a.b", b"", b"") == DirectRequest(last_by_subj="a.b")
    assert parse(b"a.b", b'{"no_hdr":true}', b"") == DirectRequest(last_by_subj="a.b", no_hdr=True)


@pytest.mark.parametrize(
    "body", [b'{"seq":1}', b'{"batch":2}', b'{"last_by_subj":"c"}', b'{"multi_last":["c"]}']
)
def test_a_subject_and_another_wish_are_refused_together(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse(b"a.b", body, b"")
    assert refused.value.status == b"NATS/1.0 408 Bad Request\r\n\r\n"


@pytest.mark.parametrize("level", [b"99", b"x"])
def test_a_level_we_do_not_offer_is_refused(level: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse(b"a.b", b"", b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level)
    assert refused.value.status == b"NATS/1.0 412 Required Api Level\r\n\r\n"
