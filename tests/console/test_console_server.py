"""Where a console may listen, and what it demands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.console.console_server import ConsoleSettings, address_of, bound_socket, checked
from headwater.errors import SettingsError

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


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(SettingsError, match="belong together"):
        checked(ConsoleSettings(tls_cert=FILE))


def test_a_port_in_use_is_an_error_with_a_remedy() -> None:
    with bound_socket(ConsoleSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        assert address_of(ConsoleSettings(), taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(SettingsError, match="pass --port"):
            bound_socket(ConsoleSettings(port=port))
