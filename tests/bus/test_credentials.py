"""CONNECT fields and the TLS context."""

import base64
from pathlib import Path

import pytest

from headwater.bus.credentials import authorization, connect_fields, tls_context
from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError
from identities import make_operator, new_key, public, write_seed

ADDRESS = Address.parse("nats://h")


def test_each_kind_of_credentials_gives_its_fields() -> None:
    assert connect_fields(ConnectOptions(), ADDRESS, "") == {}
    assert connect_fields(ConnectOptions(user="u", password="p"), ADDRESS, "") == {"user": "u", "pass": "p"}
    assert connect_fields(ConnectOptions(token="t"), ADDRESS, "") == {"auth_token": "t"}


def test_a_url_may_carry_user_and_password_or_a_token() -> None:
    in_url = Address.parse("nats://u:p@h")
    assert connect_fields(ConnectOptions(), in_url, "") == {"user": "u", "pass": "p"}
    assert connect_fields(ConnectOptions(), Address.parse("nats://t@h"), "") == {"auth_token": "t"}


def test_an_nkey_signs_the_nonce(tmp_path: Path) -> None:
    pair = new_key()
    options = ConnectOptions(nkey_file=write_seed(tmp_path / "seed", pair))
    fields = connect_fields(options, ADDRESS, "nonce")
    assert fields["nkey"] == public(pair)
    assert pair.verify(b"nonce", base64.urlsafe_b64decode(fields["sig"] + "=="))


def test_a_credentials_file_gives_the_jwt_and_signs_the_nonce(tmp_path: Path) -> None:
    options = ConnectOptions(creds_file=make_operator(tmp_path).creds_file)
    fields = connect_fields(options, ADDRESS, "nonce")
    assert fields.keys() == {"jwt", "sig"}
    assert fields["jwt"].count(".") == 2


@pytest.mark.parametrize(
    "text", ["", "nonsense", "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"]
)
def test_files_that_hold_no_credentials_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    for options in (ConnectOptions(creds_file=str(path)), ConnectOptions(nkey_file=str(path))):
        with pytest.raises(BusError, match="broken"):
            connect_fields(options, ADDRESS, "")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(BusError, match="missing"):
        connect_fields(ConnectOptions(creds_file=missing), ADDRESS, "")
    with pytest.raises(BusError, match="TLS files"):
        tls_context(ConnectOptions(tls_ca=missing))


def test_the_line_that_would_let_us_in_shows_no_secret(tmp_path: Path) -> None:
    pair = new_key()
    nkey = ConnectOptions(nkey_file=write_seed(tmp_path / "seed", pair))
    assert public(pair) in authorization(nkey, ADDRESS)
    lines = [
        authorization(options, ADDRESS)
        for options in (
            ConnectOptions(user="me", password="hush"),
            ConnectOptions(token="hush"),
            ConnectOptions(),
        )
    ]
    assert "user: me" in lines[0]
    assert "token" in lines[1]
    assert not any("hush" in line for line in lines)


def test_an_address_with_its_own_user_wins_over_what_is_said_for_all() -> None:
    options = ConnectOptions(user="u", password="p", token="t")
    assert connect_fields(options, Address.parse("nats://leaf:secret@h"), "") == {
        "user": "leaf",
        "pass": "secret",
    }
    assert "user: leaf," in authorization(options, Address.parse("nats://leaf:secret@h"))


def test_a_password_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "password"
    options = ConnectOptions(user="u", password_file=str(path))
    for password in ("old", "new"):
        path.write_text(f"{password}\n")
        assert connect_fields(options, ADDRESS, "") == {"user": "u", "pass": password}
