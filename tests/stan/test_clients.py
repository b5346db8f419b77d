"""Tests of stan.clients."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.stan.clients import Client, Clients

ME = Client("me", "hb.me", b"1")


def test_a_client_is_found_by_its_id_and_by_its_connection() -> None:
    clients = Clients(10)
    clients.add(ME)
    assert clients.get("me") is clients.of_connection(b"1") is ME
    assert ME in clients
    assert (list(clients), len(clients)) == ([ME], 1)


def test_a_publisher_that_names_its_connection_is_found_by_that_alone() -> None:
    clients = Clients(10)
    clients.add(ME)
    assert clients.publisher("me", b"") is ME
    assert clients.publisher("whoever", b"1") is ME
    assert clients.publisher("me", b"2") is None


def test_one_that_took_over_an_id_is_not_removed_with_its_predecessor() -> None:
    clients = Clients(10)
    clients.add(ME)
    clients.remove(ME)
    again = Client("me", "hb.again", b"1")
    clients.add(again)
    assert clients.get("me") is clients.of_connection(b"1") is again
    assert ME not in clients


@given(st.integers(0, 5), st.lists(st.booleans(), max_size=30))
def test_a_client_is_given_up_after_one_miss_more_than_allowed(allowed: int, beats: list[bool]) -> None:
    clients = Clients(allowed)
    clients.add(ME)
    in_a_row = 0
    for answered in beats:
        if answered:
            assert clients.answered(ME) is (in_a_row > 0)
            in_a_row = 0
        else:
            in_a_row += 1
            assert clients.missed(ME) is (in_a_row > allowed)
        assert clients.in_doubt("me") is (in_a_row > 0)
