"""The rules for requests: which hosts, origins and cookies are admitted."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from headwater.console.access import MOST_SESSIONS, Access


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("localhost:8280", True),
        ("127.0.0.1:8280", True),
        ("[::1]:8280", True),
        ("lake.example:443", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_only_known_names_and_addresses_are_admitted(host: str, admitted: bool) -> None:
    assert Access(host_names=("lake.example",)).admits_host(host) is admitted


@pytest.mark.parametrize(
    ("headers", "reads", "changes"),
    [
        ({}, True, False),
        ({"origin": "http://here"}, True, True),
        ({"origin": "http://there"}, False, False),
        ({"origin": "null"}, False, False),
        ({"sec-fetch-site": "same-origin"}, True, True),
        ({"sec-fetch-site": "none"}, True, False),
        ({"sec-fetch-site": "cross-site"}, False, False),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True, False),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, False, False),
    ],
)
def test_a_change_must_come_from_the_console_s_own_pages(
    headers: dict[str, str], reads: bool, changes: bool
) -> None:
    sent = Headers({"host": "here", **headers})
    assert Access().admits_origin(sent, changes=False) is reads
    assert Access().admits_origin(sent, changes=True) is changes


def test_an_empty_token_logs_nobody_in() -> None:
    assert not Access().logs_in("")
    assert Access(token="é").logs_in("é")
    assert not Access(token="secret").logs_in("")


def test_the_number_of_sessions_is_bounded() -> None:
    access = Access(token="secret")
    first = access.open_session()
    for _ in range(MOST_SESSIONS):
        access.open_session()
    assert first not in access._sessions
    assert len(access._sessions) == MOST_SESSIONS
