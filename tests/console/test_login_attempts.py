"""Failed logins are counted by address and by name, and forgotten after minutes."""

from __future__ import annotations

import pytest

from headwater.console.login_attempts import (
    MOST_KEYS,
    MOST_OF_ADDRESS,
    MOST_OF_NAME,
    WINDOW_S,
    LoginAttempts,
    client_of,
)


def test_an_address_waits_after_many_failures_until_the_first_is_old() -> None:
    now = [0.0]
    attempts = LoginAttempts(lambda: now[0])
    for _ in range(MOST_OF_ADDRESS):
        assert attempts.wait_s("10.0.0.1") == 0
        attempts.failed("10.0.0.1")
        now[0] += 1
    assert attempts.wait_s("10.0.0.1") == WINDOW_S - MOST_OF_ADDRESS
    assert attempts.wait_s("10.0.0.2") == 0
    now[0] = WINDOW_S
    assert attempts.wait_s("10.0.0.1") == 0
    attempts.failed("10.0.0.1")
    assert attempts.wait_s("10.0.0.1") == 1
    attempts.succeeded("10.0.0.1")
    assert attempts.wait_s("10.0.0.1") == 0


def test_a_name_is_guessed_at_from_many_addresses_only_so_often() -> None:
    attempts = LoginAttempts(lambda: 0.0)
    for number in range(MOST_OF_NAME):
        attempts.failed(f"10.0.0.{number}", "ada")
    assert attempts.wait_s("10.1.1.1", "ada") == WINDOW_S
    assert attempts.wait_s("10.1.1.1", "bob") == 0


def test_memory_is_bounded() -> None:
    attempts = LoginAttempts(lambda: 0.0)
    for number in range(MOST_KEYS + 5):
        attempts.failed(f"host{number}")
    assert len(attempts._failures) == MOST_KEYS


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 500, "x" * 100),
    ],
)
def test_one_client_is_one_address_or_one_network(address: str, client: str) -> None:
    assert client_of(address) == client
