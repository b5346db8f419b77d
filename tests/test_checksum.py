"""Sums are those of zlib, whatever computes them: files written by either are read by the other."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import checksum


@pytest.fixture
def without_isal() -> Iterator[None]:
    """Have the module loaded where ISA-L is not installed."""
    with patch.dict(sys.modules, {"isal": None, "isal.isal_zlib": None}):
        importlib.reload(checksum)
        yield
    importlib.reload(checksum)


@given(st.binary(max_size=5000), st.binary(max_size=200))
def test_a_checksum_is_zlib_s_and_continues_another(one: bytes, two: bytes) -> None:
    assert checksum.crc32(one) == zlib.crc32(one)
    assert checksum.crc32(two, checksum.crc32(one)) == zlib.crc32(one + two)
    assert checksum.crc32(memoryview(one)[1:]) == zlib.crc32(one[1:])


def test_isa_l_is_used_where_it_is_installed() -> None:
    pytest.importorskip("isal", reason="there is no ISA-L for this kind of machine")
    assert checksum.crc32.__module__ == "isal.isal_zlib"


def test_without_isa_l_it_is_zlib_that_sums(without_isal: None) -> None:
    assert checksum.crc32 is zlib.crc32
    assert checksum.crc32(b"123456789") == 0xCBF43926
