"""Names are checked as nats-server checks them and give safe directories."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import names


@pytest.mark.parametrize("name", ["S", "ORDERS-1", "$KV", "é", "a" * 255, "a\x00b", "a%b"])
def test_these_names_are_valid(name: str) -> None:
    assert names.valid_stream_name(name)
    assert names.valid_consumer_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a/b", "a\\b", "a\tb", "a\fb", "a" * 256, ".."])
def test_these_names_are_invalid(name: str) -> None:
    assert not names.valid_stream_name(name)
    assert not names.valid_consumer_name(name)


def test_a_plain_name_is_its_own_directory() -> None:
    assert names.directory_name("ORDERS-1_x") == "ORDERS-1_x"
    assert names.directory_name("$G") == "$G"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "/", "a\x00", "a:b", "a%2Fb", "%%", "~2F"])
def test_no_name_leaves_its_directory(name: str) -> None:
    directory = names.directory_name(name)
    assert not set(directory) & set("/\\.\x00:%")
    assert unquote(directory.replace("~", "%")) == name


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_two_names_never_share_a_directory(a: str, b: str) -> None:
    assert (names.directory_name(a) == names.directory_name(b)) == (a == b)


def test_long_names_are_cut_and_still_differ() -> None:
    a, b = "x" * 200 + "a", "x" * 200 + "b"
    assert names.directory_name(a) != names.directory_name(b)
    assert len(names.directory_name("é" * 255)) <= 150
    assert names.directory_name(a) != names.directory_name(names.directory_name(a))
