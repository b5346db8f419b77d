"""Where a console may listen, and what it demands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from consoles import open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.console_server import ConsoleSettings, address_of, bound_socket, checked
from headwater.console.console_users import user_line
from headwater.console.watched_site import WatchedSite
from headwater.errors import SettingsError
from headwater.tls import client_context
from identities import make_certificates

FILE = Path("cert.pem")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert checked(ConsoleSettings(host=host)).token == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "lake.example"])
def test_other_addresses_need_tls_and_get_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match="in the clear"):
        checked(ConsoleSettings(host=host))
    tokens = {checked(ConsoleSettings(host=host, tls_cert=FILE, tls_key=FILE)).token for _ in range(2)}
    assert len(tokens) == 2
    assert all(len(token) >= 32 for token in tokens)
    assert checked(ConsoleSettings(host=host, plain_http=True, token="mine")).token == "mine"
    assert checked(ConsoleSettings(host=host, plain_http=True, users_file=FILE)).token == ""


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(SettingsError, match="belong together"):
        checked(ConsoleSettings(tls_cert=FILE))


def test_a_port_in_use_is_an_error_with_a_remedy() -> None:
    with bound_socket(ConsoleSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        assert address_of(ConsoleSettings(), taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(SettingsError, match="pass --port"):
            bound_socket(ConsoleSettings(port=port))


async def test_over_tls_users_log_in_and_only_the_console_s_own_pages_are_served(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    users = tmp_path / "users"
    users.write_text(user_line("ada", "correct horse"))
    nowhere = WatchedSite("nowhere", ConnectionSettings(server="nats://127.0.0.1:1"))
    settings = {
        "tls_cert": Path(made.server_cert),
        "tls_key": Path(made.server_key),
        "users_file": users,
        "host_names": ("lake.example",),
    }
    async with open_console([nowhere], **settings) as console:
        console.tls = client_context(ca=made.ca)
        own = f"https://127.0.0.1:{console.port}"
        form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": own}

        assert (await console.get("/streams")).headers["location"] == "/login"
        page = (await console.get("/login")).text
        assert ('id="by-password"' in page, 'id="by-token"' in page, "Log out" in page) == (
            True,
            False,
            False,
        )
        wrong = await console.get("/login", "POST", "user=ada&password=guess", **form)
        assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
        assert "This is not the password" in wrong.text
        for origin in ("http://127.0.0.1:" + str(console.port), "https://evil.example", "null"):
            refused = await console.get(
                "/login", "POST", "user=ada&password=correct+horse", **{**form, "Origin": origin}
            )
            assert refused.status == 403
            assert "another web site" in refused.text
        right = await console.get("/login", "POST", "user=ada&password=correct+horse", **form)
        cookie, *flags = right.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=strict", "Secure", "Path=/"} <= set(flags)

        inside = await console.get("/streams", Cookie=cookie)
        assert (inside.status, "You are ada" in inside.text) == (200, True)
        assert (await console.get("/streams", Cookie=cookie, Host="lake.example")).status == 200
        assert (await console.get("/streams", Cookie=cookie, Host="evil.example")).status == 421
        assert (await console.get("/streams", Cookie=cookie, Origin="https://evil.example")).status == 403
        out = await console.get("/logout", "POST", "", Cookie=cookie, **form)
        assert (out.status, out.headers["location"]) == (303, "/login")
        assert (await console.get("/streams", Cookie=cookie)).headers["location"] == "/login"


async def test_tokens_are_not_guessed_without_end() -> None:
    nowhere = WatchedSite("nowhere", ConnectionSettings(server="nats://127.0.0.1:1"))
    async with open_console([nowhere], token="secret") as console:
        guesses = [(await console.get("/api/streams", Authorization=f"Bearer {n}")).status for n in range(12)]
        assert guesses == [401] * 10 + [429] * 2
        form = {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin"}
        late = await console.get("/login", "POST", "token=secret", **form)
        assert (late.status, "Too many logins have failed" in late.text) == (429, True)
        assert 0 < int(late.headers["retry-after"]) <= 300
