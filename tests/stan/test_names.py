"""Tests of stan.names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.names import valid_stream_name
from headwater.stan.names import channel_name, stream_name, valid_channel, valid_client_id, valid_pattern

channels = st.text(min_size=1, max_size=40).filter(valid_channel)


@pytest.mark.parametrize("name", ["foo", "foo.bar", "a-b_c", "~", "a=b", "ü.ö"])
def test_a_literal_subject_names_a_channel(name: str) -> None:
    assert valid_channel(name)


@pytest.mark.parametrize(
    "name", ["", ".foo", "foo.", "foo..bar", "foo.*", "foo.>", "a*b", "x>", "a/b", "a b", "x\x00", "a" * 256]
)
def test_anything_else_names_none(name: str) -> None:
    assert not valid_channel(name)


def test_patterns_may_hold_wildcards() -> None:
    assert valid_pattern("foo.*.bar.>")
    assert not valid_pattern("foo..>")


@pytest.mark.parametrize(("name", "valid"), [("me", True), ("Me_2-x", True), ("", False), ("a.b", False)])
def test_a_client_id_is_letters_digits_dashes(name: str, valid: bool) -> None:
    assert valid_client_id(name) is valid


def test_dots_become_tildes() -> None:
    assert stream_name("orders.eu.west") == "orders~eu~west"
    assert stream_name("a~b=c\\d") == "a=7Eb=3Dc=5Cd"


@given(channels)
def test_a_stream_name_leads_back_to_its_channel(channel: str) -> None:
    name = stream_name(channel)
    assert valid_stream_name(name)
    assert channel_name(name) == channel
