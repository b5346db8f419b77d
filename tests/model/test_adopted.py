"""An adopted file knows its sequences wherever it is placed."""

from __future__ import annotations

import msgspec

from headwater.model.adopted import Adopted

FILE = Adopted("f", 3, 2, 6, 10, 20, 99, 1, 500, "a", "b", {b"a": (2, 5), b"b": (1, 6)}, b"gaps")


def test_its_sequences_follow_from_its_place() -> None:
    assert (FILE.first_seq, FILE.last_seq) == (2, 6)
    placed = FILE.at(100)
    assert (placed.first_seq, placed.last_seq) == (102, 106)
    assert (placed.rows, placed.subjects) == (FILE.rows, FILE.subjects)


def test_it_survives_its_way_through_a_log() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(FILE.at(7)), type=Adopted) == FILE.at(7)
