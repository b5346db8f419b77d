"""The bytes of an incomplete frame are kept until they are complete."""

from headwater.wire.partial_frame import PartialFrame


def test_an_unfinished_frame_comes_back_once_it_can_be_whole() -> None:
    partial = PartialFrame()
    partial.keep(b"ab", need=5)
    assert partial.join(b"c") == b""
    assert len(partial) == 3
    assert partial.join(b"def") == b"abcdef"
    assert len(partial) == 0


def test_a_rest_of_unknown_length_comes_back_with_the_next_read() -> None:
    partial = PartialFrame()
    partial.keep(b"MS")
    assert partial.join(b"G") == b"MSG"


def test_nothing_to_keep_keeps_nothing() -> None:
    partial = PartialFrame()
    partial.keep(b"", need=10)
    assert not partial
