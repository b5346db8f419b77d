"""Tests of console.change_guard; test_change_pages.py has the refusals over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from headwater.console.access import COOKIE
from headwater.console.change_guard import form_token


def request(cookie: str) -> Request:
    headers = [(b"cookie", f"{COOKIE}={cookie}".encode())] if cookie else []
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b""})


def test_the_token_of_a_form_belongs_to_one_session() -> None:
    assert form_token(request("a")) == form_token(request("a"))
    assert form_token(request("a")) != form_token(request("b"))
    assert form_token(request("a")) != form_token(request(""))
    assert len(form_token(request(""))) == 64
