"""An adopted file knows its sequences wherever it is placed."""

from __future__ import annotations

import msgspec

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied

FILE = Adopted("f", 3, 2, 6, 10, 20, 99, 1, 500, "a", "b", {b"a": (2, 5), b"b": (1, 6)}, b"gaps")
LINKED = msgspec.structs.replace(
    FILE, first_ts=0, last_ts=0, copied=Copied("O", "I", 0, 0, 10, 20, with_headers=1)
)


def test_its_sequences_follow_from_its_place() -> None:
    assert (FILE.first_seq, FILE.last_seq) == (2, 6)
    placed = FILE.behind(101, 0, 55_000)
    assert (placed.base_seq, placed.first_seq, placed.last_seq) == (100, 102, 106)
    assert (placed.rows, placed.subjects) == (FILE.rows, FILE.subjects)


def test_a_file_with_times_of_its_own_keeps_them() -> None:
    placed = FILE.behind(101, 0, 55_000)
    assert (placed.first_ts, placed.last_ts, placed.copied) == (10, 20, None)


def test_a_file_of_a_source_s_origin_gets_one_time_when_it_is_placed() -> None:
    placed = LINKED.behind(0, 0, 55_999)
    assert placed.copied is not None
    assert (placed.first_ts, placed.last_ts, placed.copied.ts, placed.copied.micros) == (*[55_000] * 3, 55)
    assert (placed.copied.first_ts, placed.copied.last_ts) == (10, 20)


def test_its_time_is_never_before_that_of_the_message_before_it() -> None:
    times = [LINKED.behind(0, last_ts, 55_000).first_ts for last_ts in (54_999, 55_000, 55_001, 56_001)]
    assert times == [55_000, 55_000, 56_000, 57_000]


def test_its_base_is_below_nothing_where_the_target_is_shorter_than_its_origin() -> None:
    placed = LINKED.behind(0, 0, 1)
    assert (placed.base_seq, placed.first_seq, placed.last_seq) == (-1, 1, 5)


def test_it_survives_its_way_through_a_log() -> None:
    for file in (FILE.behind(7, 0, 1), LINKED.behind(7, 0, 1)):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(file), type=Adopted) == file


def test_a_log_of_before_files_were_linked_is_read() -> None:
    before = msgspec.msgpack.decode(msgspec.msgpack.encode(FILE))[:-1]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(before), type=Adopted) == FILE
