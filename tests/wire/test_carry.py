"""The carry of unfinished frames."""

from headwater.wire.carry import Carry


def test_an_unfinished_frame_comes_back_once_it_can_be_whole() -> None:
    carry = Carry()
    carry.keep(b"ab", need=5)
    assert carry.join(b"c") == b""
    assert len(carry) == 3
    assert carry.join(b"def") == b"abcdef"
    assert len(carry) == 0


def test_a_rest_of_unknown_length_comes_back_with_the_next_read() -> None:
    carry = Carry()
    carry.keep(b"MS")
    assert carry.join(b"G") == b"MSG"


def test_nothing_to_keep_keeps_nothing() -> None:
    carry = Carry()
    carry.keep(b"", need=10)
    assert not carry
