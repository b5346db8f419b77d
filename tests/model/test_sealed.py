"""A sealed file is read back as it was written, or refused."""

from __future__ import annotations

import msgspec
import pytest

from headwater.model.sealed import SealError, seal, unseal


class Value(msgspec.Struct, frozen=True):
    """Something to seal."""

    name: str
    number: int


WHOLE = seal(Value("a name", 17), 2)


def test_a_sealed_value_is_read_back() -> None:
    assert unseal(WHOLE, Value, 2) == Value("a name", 17)
    assert unseal(WHOLE, Value, 3) == Value("a name", 17)


def test_a_version_of_a_newer_release_is_refused_by_name() -> None:
    with pytest.raises(SealError, match="it has version 2: it was written by a newer release"):
        unseal(WHOLE, Value, 1)


def test_every_flipped_bit_is_refused_or_makes_no_difference() -> None:
    for at in range(len(WHOLE)):
        for bit in range(8):
            flipped = bytearray(WHOLE)
            flipped[at] ^= 1 << bit
            try:
                assert unseal(bytes(flipped), Value, 2) == Value("a name", 17)
            except SealError:
                pass


@pytest.mark.parametrize("length", [0, 1, 20, len(WHOLE) - 2])
def test_a_file_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(SealError, match="damaged"):
        unseal(WHOLE[:length], Value, 2)
