"""Where a client connects: addresses, credentials, TLS, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import SettingsError


def test_a_user_without_password_is_a_token() -> None:
    assert ConnectionSettings(user="t").options()["token"] == "t"


def test_the_most_particular_proof_is_shown(tmp_path: Path) -> None:
    creds = tmp_path / "a.creds"
    creds.touch()
    options = ConnectionSettings(user="u", password="p", creds=str(creds), nkey="seed").options()
    assert options["user_credentials"] == str(creds)
    assert not {"user", "token", "nkeys_seed"} & set(options)


def test_servers_may_be_several_and_lack_a_scheme() -> None:
    assert ConnectionSettings(server="a:1, nats://b").options()["servers"] == ["nats://a:1", "nats://b"]


def test_an_address_of_another_protocol_is_named() -> None:
    with pytest.raises(SettingsError, match="http://hub:4222 is invalid: the scheme must be one of nats://"):
        ConnectionSettings(server="nats://a,http://hub:4222").options()


def test_an_address_that_is_shown_hides_the_password() -> None:
    assert ConnectionSettings(server="nats://u:p@h:1,nats://t@i:2").address == "nats://h:1,nats://i:2"


@pytest.mark.parametrize("flag", ["creds", "nkey"])
def test_a_file_of_credentials_that_does_not_exist_is_named(flag: str) -> None:
    with pytest.raises(SettingsError, match=f"^{flag}: the file no.file does not exist$"):
        ConnectionSettings(**{flag: "no.file"}).options()  # type: ignore[arg-type]


def test_tls_files_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="TLS files"):
        ConnectionSettings(tls_ca="no such file").options()


def test_neither_passwords_nor_tokens_are_shown() -> None:
    shown = repr(ConnectionSettings(server="nats://u:secret@h:1", password="secret", token="secret"))
    assert "nats://h:1" in shown
    assert "secret" not in shown
