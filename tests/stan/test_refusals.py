"""Tests of stan.refusals."""

from __future__ import annotations

from headwater.stan import refusals


def test_a_clash_of_cases_names_both_channels() -> None:
    assert '"Foo"' in refusals.other_case("Foo", "foo")
    assert '"foo"' in refusals.other_case("Foo", "foo")


def test_texts_that_clients_compare_are_those_of_nats_streaming() -> None:
    assert refusals.CLIENT_REPLACED == "client has been replaced or is no longer registered"
    assert refusals.CLIENT_REGISTERED == "stan: clientID already registered"
