"""Addresses and connect options."""

import pytest

from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError


def test_an_address_is_read_from_a_url() -> None:
    address = Address.parse("tls://me:p%40ss@example.net:4333")
    assert (address.host, address.port, address.tls) == ("example.net", 4333, True)
    assert (address.user, address.password) == ("me", "p@ss")


@pytest.mark.parametrize(
    ("url", "shown"), [("nats://h", "h:7422"), ("h:1", "h:1"), ("h", "h:7422"), ("nats://[::1]:5", "[::1]:5")]
)
def test_scheme_and_port_may_be_left_out(url: str, shown: str) -> None:
    assert str(Address.parse(url, 7422)) == shown


@pytest.mark.parametrize("url", ["", "http://h:1", "nats://", "nats://h:port", "nats://h:99999"])
def test_what_is_no_address_is_refused_by_name(url: str) -> None:
    with pytest.raises(BusError, match="not the address") as caught:
        Address.parse(url)
    assert repr(url) in caught.value.problem


def test_secrets_are_not_shown() -> None:
    options = ConnectOptions(password="hush", token="hush")
    assert "hush" not in repr(options)
    assert "hush" not in repr(Address.parse("nats://u:hush@h"))


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BusError):
        ConnectOptions(servers=())
    with pytest.raises(BusError, match="certificate"):
        ConnectOptions(tls_cert="client.pem")
