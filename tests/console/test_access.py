"""The rules for requests: which hosts, origins and cookies are admitted."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from headwater.console import access as access_module
from headwater.console.access import MOST_SESSIONS, MOST_WAITING, Access, LoginDeniedError
from headwater.console.console_users import ConsoleUsers, PasswordHash, hashed
from headwater.console.login_attempts import MOST_OF_ADDRESS


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
    assert access.session(first) is None
    assert len(access._sessions) == MOST_SESSIONS


def test_a_login_is_valid_for_hours_and_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(token="secret")
    one, other = access.open_session("ada"), access.open_session()
    assert [found.user for each in (one, other) if (found := access.session(each))] == ["ada", ""]
    access.close_session(one)
    assert access.session(one) is None
    assert access.session("") is None
    monkeypatch.setattr(access_module, "SESSION_S", -1.0)
    assert access.session(other) is None
    assert not access._sessions


def test_under_tls_the_origin_must_be_one_too() -> None:
    sent = Headers({"host": "here", "origin": "http://here"})
    assert Access().admits_origin(sent, changes=True)
    assert not Access(is_secure=True).admits_origin(sent, changes=True)
    secure = Headers({"host": "here", "origin": "https://here"})
    assert Access(is_secure=True).admits_origin(secure, changes=True)
    assert not Access().admits_origin(Headers({"host": "here", "origin": "http://[here"}), changes=False)


def cheap_users(**passwords: str) -> ConsoleUsers:
    """Return users whose hashes cost next to nothing."""
    salt = b"0123456789abcdef"
    return ConsoleUsers(
        {name: PasswordHash(salt, hashed(text, salt, 2, 1, 1), 2, 1, 1) for name, text in passwords.items()}
    )


async def test_a_password_logs_its_user_in_and_nobody_else() -> None:
    access = Access(users=cheap_users(ada="pässword", bob="other"), token="secret")
    for given in (
        {"user": "ada", "password": "other"},
        {"user": "eve", "password": "pässword"},
        {"user": "ada", "token": "secret"},
        {"password": "pässword"},
        {},
    ):
        with pytest.raises(LoginDeniedError, match="This is not the"):
            await access.log_in("10.0.0.1", **given)
    cookie = await access.log_in("10.0.0.1", user="ada", password="pässword")
    found = access.session(cookie)
    assert found is not None
    assert found.user == "ada"
    assert access.session(await access.log_in("10.0.0.1", token="secret")) is not None


async def test_who_fails_too_often_must_wait_and_others_need_not() -> None:
    access = Access(users=cheap_users(ada="right"))
    for _ in range(MOST_OF_ADDRESS):
        with pytest.raises(LoginDeniedError, match="not the password"):
            await access.log_in("10.0.0.1", user="ada", password="wrong")
    with pytest.raises(LoginDeniedError, match="try again in") as refused:
        await access.log_in("10.0.0.1", user="ada", password="right")
    assert refused.value.wait_s > 0
    assert await access.log_in("10.0.0.2", user="ada", password="right")


async def test_a_flood_of_logins_is_refused_at_once() -> None:
    access = Access(token="secret")
    access._waiting = MOST_WAITING
    with pytest.raises(LoginDeniedError, match="Many logins wait"):
        await access.log_in("10.0.0.1", token="secret")
