"""A stream remembers the last batch of each query, and of no more queries than it should."""

from __future__ import annotations

import msgspec
import pytest

from headwater.errors import Error
from headwater.model import written
from headwater.model.written import (
    Written,
    WrittenVersionError,
    changes,
    checked,
    is_record,
    next_time,
    record_name,
)


def test_a_record_is_read_as_it_was_written() -> None:
    record = Written(7, 8, 9)
    assert Written.decode(record.encode()) == record
    assert Written.decode(b"") is None


def test_the_record_of_a_newer_release_is_refused() -> None:
    with pytest.raises(WrittenVersionError, match="newer release"):
        Written.decode(msgspec.msgpack.encode((written.VERSION + 1, 1, 2, 3)))


def test_names_of_records_are_not_those_of_upstreams() -> None:
    assert is_record(record_name("q", once=False))
    assert is_record(record_name("q", once=True))
    assert record_name("q", once=True) != record_name("q", once=False)
    assert not is_record("ORDERS > >")


@pytest.mark.parametrize(("once", "most"), [(False, written.MOST_QUERIES), (True, written.MOST_ONCE)])
def test_the_query_whose_last_batch_is_oldest_is_forgotten_first(once: bool, most: int) -> None:
    known = {"ORDERS > >": b"cursor", record_name("other kind", once=not once): Written(1, 0, 1).encode()}
    for number in range(most):
        known[record_name(f"q{number}", once=once)] = Written(1, 1000 - number, 1).encode()
    new = record_name("new", once=once)
    changed = changes(known, new, Written(5, 2000, 1))
    assert changed == {record_name(f"q{most - 1}", once=once): b"", new: Written(5, 2000, 1).encode()}
    again = record_name("q3", once=once)
    assert list(changes(known, again, Written(2, 2000, 1))) == [again]


def test_a_clock_that_was_set_back_does_not_make_a_new_record_the_oldest() -> None:
    known = {"ORDERS > >": b"cursor", record_name("q", once=True): Written(1, 500, 1).encode()}
    assert next_time({}, 7) == 7
    assert next_time(known, 700) == 700
    assert next_time(known, 100) == 501


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("ORDERS > >", Written(1, 2, 3).encode()),
        (record_name("q", once=False), b""),
        (record_name("q", once=False), b"\xff"),
        (record_name("q", once=False), b"\xa1\xff"),
        (record_name("q" * 500, once=False), Written(1, 2, 3).encode()),
        (record_name("é", once=True), Written(1, 2, 3).encode()),
    ],
)
def test_records_of_an_archive_are_checked(name: str, encoded: bytes) -> None:
    good = {record_name("q", once=False): Written(1, 2, 3).encode()}
    assert checked(good) == good
    with pytest.raises(Error, match="is not the record of a query"):
        checked({**good, name: encoded})


def test_no_more_records_are_restored_than_a_stream_remembers() -> None:
    many = {record_name(str(n), once=False): Written(1, 2, 3).encode() for n in range(1101)}
    with pytest.raises(Error, match="1101 queries"):
        checked(many)
