"""A request distinguishes an empty body from a missing one, and names the level it requires."""

from __future__ import annotations

import pytest

from headwater.api.request import Request, check_level
from headwater.errors import ApiError
from headwater.model.api_level import level_is_enough
from headwater.wire.go_json import int_


def request(body: bytes) -> Request:
    return Request("INFO", "", "", b"reply", b"", body)


@pytest.mark.parametrize("body", [b"", b"{}", b"{ }", b" {}\n"])
def test_these_bodies_say_nothing(body: bytes) -> None:
    assert request(body).is_empty


@pytest.mark.parametrize("body", [b"x", b"[]", b"null", b'{"a":1}', b"{", b"[" * 100_000, b"\xff"])
def test_these_bodies_say_something(body: bytes) -> None:
    assert not request(body).is_empty


def test_an_optional_body_is_read_only_if_it_begins_like_json() -> None:
    assert request(b' \n{"offset":3}').decode_optional({"offset": int_}, "R") == {"offset": 3}
    assert request(b"offset").decode_optional({"offset": int_}, "R") == {}
    with pytest.raises(ApiError):
        request(b"{offset").decode_optional({"offset": int_}, "R")


@pytest.mark.parametrize(("level", "enough"), [(b"0", True), (b"5", True), (b"6", False), (b"five", False)])
def test_a_level_beyond_ours_is_refused(level: bytes, enough: bool) -> None:
    header = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level
    assert level_is_enough(header) == enough
    if not enough:
        with pytest.raises(ApiError) as refused:
            check_level(header)
        assert refused.value.err_code == 10185


def test_no_header_requires_no_level() -> None:
    assert level_is_enough(b"")
    assert level_is_enough(b"NATS/1.0\r\nOther: 1\r\n\r\n")
