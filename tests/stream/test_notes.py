"""The notes of a batch are read as they were written, and take no space when empty."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.errors import NewerFormatError
from headwater.model.adopted import Adopted
from headwater.model.message_ids import MessageIds
from headwater.stream.notes import GONE, Notes, decode, encode
from headwater.stream.retention.removal import Removal

removals = st.builds(
    lambda seqs, size, subjects, everything: Removal(BitMap64(seqs), size, Counter(subjects), everything),
    st.sets(st.integers(1, 1 << 40), min_size=1, max_size=5),
    st.integers(0, 1 << 50),
    st.dictionaries(st.binary(min_size=1, max_size=8), st.integers(1, 9), max_size=4),
    st.booleans(),
)


@given(removals, st.dictionaries(st.text(max_size=8), st.binary(max_size=20), max_size=3))
def test_a_removal_and_changes_of_consumers_come_back(removal: Removal, consumers: dict[str, bytes]) -> None:
    notes = decode(encode(removal, consumers))
    assert notes.removal(removal.seqs) == removal
    assert notes.consumers == consumers


def test_a_change_with_nothing_to_note_takes_no_bytes() -> None:
    assert encode(None, {}) == b""
    assert encode(Removal(), {}) == b""
    assert decode(b"") == Notes()
    assert not decode(b"").removal(None)


def test_consumers_are_noted_without_a_removal() -> None:
    notes = decode(encode(None, {"C": b"\x00\xff", "D": GONE}))
    assert notes.consumers == {"C": b"\x00\xff", "D": b""}
    assert not notes.removal(None)


def test_a_removal_of_everything_is_noted_although_it_lists_no_sequence() -> None:
    assert decode(encode(Removal(everything=True), {})).removed_everything


def test_notes_of_two_batches_share_nothing() -> None:
    first = decode(b"").removal(None)
    first.seqs.add(1)
    first.subjects[b"a"] += 1
    assert decode(b"").removal(None) == Removal()


def test_notes_of_version_1_are_read() -> None:
    old = msgspec.msgpack.encode([5, {b"a": 1}, False, {"c": b"x"}, {"u": b"y"}])
    assert decode(old) == Notes(5, {b"a": 1}, False, {"c": b"x"}, {"u": b"y"})


def test_notes_of_a_newer_version_are_refused_as_such() -> None:
    with pytest.raises(NewerFormatError, match="version 4, this Headwater knows up to 3"):
        decode(b"\x04" + msgspec.msgpack.encode([5]))


def test_fields_that_are_not_known_are_refused_where_they_would_be_misread() -> None:
    file = Adopted("f", 1, 0, 0, 1, 1, 1, 0, 9, "a", "a", {b"a": (1, 0)})
    longer = [*msgspec.to_builtins(file, str_keys=False, builtin_types=(bytes,)), "a field of tomorrow"]
    notes = [0, {}, False, {}, {}, [longer]]
    with pytest.raises(msgspec.ValidationError):
        decode(b"\x02" + msgspec.msgpack.encode(notes))
    with pytest.raises(msgspec.ValidationError):
        decode(b"\x02" + msgspec.msgpack.encode([0, {}, False, {}, {}, [], "a field of tomorrow"]))
    with pytest.raises(msgspec.ValidationError):
        decode(b"\x03" + msgspec.msgpack.encode([0, {}, False, {}, {}, [], [], "a field of tomorrow"]))


def test_only_notes_with_ids_have_the_version_that_older_engines_refuse() -> None:
    file = Adopted("f", 2, 0, 1, 1, 1, 1, 0, 9, "a", "a", {b"a": (2, 1)})
    ids = MessageIds.of([b"x", b""], ts=7)
    plain, identified = encode(None, adopted=[file]), encode(None, adopted=[file], ids=[ids])
    assert (plain[0], identified[0]) == (2, 3)
    assert decode(plain) == Notes(adopted=(file,))
    assert decode(identified) == Notes(adopted=(file,), ids=(ids,))
