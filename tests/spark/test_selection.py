"""A selection reads the rows it names, and neither files nor row groups that cannot have any."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.model.message import Message
from headwater.model.times import format_time
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.spark.reading import Reading
from headwater.spark.selection import ReadSelection, selection_of, truth
from headwater.table import Table
from headwater.table.datafile import DataFile
from spark.files import file_of
from table.links import link_of
from table.samples import TS, columns, columns_of

SECOND = 1_000_000_000


def read(part: ReadRange, selection: ReadSelection, names: Sequence[str] = ("seq",)) -> list[Any]:
    """Return the selected rows of a range."""
    found = [row for batch in read_batches(part, None, names, selection) for row in batch.to_pylist()]
    return [row["seq"] if list(row) == ["seq"] else tuple(row.values()) for row in found]


def whole(file: DataFile) -> ReadRange:
    """Return a file as a range."""
    return ReadRange(file.first_seq, file.last_seq, file)


def test_options_select_by_subject_time_and_sequence() -> None:
    options = {
        "subject": "orders.eu.*, orders.us.>",
        "startTime": "2026-11-16T08:00:00Z",
        "endTime": "2026-11-16T10:00:00+01:00",
        "startSequence": "5",
        "endSequence": "9",
    }
    found = selection_of(CaseInsensitiveDict(options))
    assert (found.first_seq, found.last_seq) == (5, 9)
    assert (found.stop_ts - found.first_ts) == 3600 * SECOND
    assert found.patterns == ("orders.eu.*", "orders.us.>")
    assert selection_of({}) == ReadSelection()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subject": "orders..eu"}, "option subject: 'orders..eu' is not a subject; write orders.eu"),
        ({"subject": "orders.>,"}, "option subject: '' is not a subject"),
        ({"subject": "a.>.b"}, "'a.>.b' is not a subject"),
        ({"startTime": "yesterday"}, "startTime must be an RFC 3339 time such as .*, not 'yesterday'"),
        ({"endTime": "2026-11-16 08:00:00"}, "endTime must be an RFC 3339 time"),
        (
            {"startTime": "2026-11-16T08:00:00Z", "endTime": "2026-11-16T08:00:00Z"},
            "endTime '2026-11-16T08:00:00Z' is not after startTime",
        ),
        ({"startSequence": "9", "endSequence": "8"}, "endSequence is 8, before startSequence 9"),
        ({"startSequence": "-1"}, "startSequence must be a number of at least 1, not '-1'"),
        ({"startSequence": "1.5"}, "startSequence must be a number"),
        ({"endSequence": "٣"}, "endSequence must be a number"),
    ],
)
def test_bad_values_are_refused_with_what_is_right(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        selection_of(options)


def test_an_option_is_true_or_false() -> None:
    assert [truth({"x": text}, "x", default=False) for text in ("true", "False")] == [True, False]
    assert truth({}, "x", default=True)
    with pytest.raises(SettingsError, match="option x must be true or false, not 'yes'"):
        truth({"x": "yes"}, "x", default=True)


def test_rows_are_selected_by_patterns_and_by_times_to_the_nanosecond(tmp_path: Path) -> None:
    messages = [
        Message(seq, TS + seq, subject, b"", b"%d" % seq)
        for seq, subject in enumerate([b"a.x", b"a.y.z", b"b", b"a.\xff", b"ab.x", b"a.x"], 1)
    ]
    part = whole(file_of(tmp_path, messages))
    assert read(part, ReadSelection(patterns=("a.*",))) == [1, 4, 6]
    assert read(part, ReadSelection(patterns=("a.>", "b"))) == [1, 2, 3, 4, 6]
    assert read(part, ReadSelection(first_ts=TS + 3, stop_ts=TS + 5)) == [3, 4]
    assert read(part, ReadSelection(patterns=("a.x",), first_ts=TS + 2), ("data", "seq")) == [(b"6", 6)]
    by_filter = ReadSelection(wanted=(pc.field("subject") == "a.x") & (pc.field("seq") > 1))
    assert read(part, pickle.loads(pickle.dumps(by_filter)), ["data"]) == [(b"6",)]
    assert read(part, ReadSelection(patterns=("c",)), ("seq", "data")) == []


def test_rows_of_a_linked_file_are_selected_by_the_time_they_have_here(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    here = 1_800_000_000_000_000_000
    table.adopt(tmp_path / "staging", [link_of(tmp_path / "staging", range(1, 20)).behind(0, 0, here)], {})
    for start, stop, count in ((0, here, 0), (here, here + 1, 19), (here + 1, here + 9, 0)):
        reading = Reading({"path": str(tmp_path)})
        reading.selection = ReadSelection(first_ts=start, stop_ts=stop, patterns=("orders.*",))
        found = [row for part in reading.ranges() for row in read(part, reading.selection, ["headers"])]
        assert len(found) == count


def test_a_small_range_plans_few_files_and_reads_few_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    messages = [
        Message(seq, TS + seq * SECOND, b"orders.%03d" % (seq // 100), b"", bytes(2500))
        for seq in range(1, 20_001)
    ]
    files = [table.write(columns_of(messages[start : start + 4_000])) for start in range(0, 20_000, 4_000)]
    table.commit(files)
    groups = sum(pq.read_metadata(table.directory / file.path).num_row_groups for file in files)
    assert groups >= 10, "a file has several row groups"
    one_percent = {
        "sequences": {"startSequence": "11001", "endSequence": "11200"},
        "times": {
            "startTime": format_time(TS + 11_001 * SECOND),
            "endTime": format_time(TS + 11_201 * SECOND),
        },
        "subjects": {"subject": "orders.110,orders.111"},
    }
    read_groups: list[int] = []
    original = pq.ParquetFile.read_row_group

    def counted(self: pq.ParquetFile, index: int, columns: list[str], **options: Any) -> Any:
        if "data" in columns:
            read_groups.append(index)
        return original(self, index, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    for options in one_percent.values():
        reading = Reading({"path": str(tmp_path), **options})
        ranges = reading.ranges()
        assert len(ranges) == 1, options
        read_groups.clear()
        found = [row for part in ranges for row in read(part, reading.selection, ["seq", "data"])]
        assert 199 <= len(found) <= 201
        # One percent is less than a row group here; the range may touch two.
        assert len(read_groups) <= 2, options


def test_patterns_for_the_api_do_not_overlap() -> None:
    assert ReadSelection(patterns=("a.>", "a.b", "c", "c")).api_filters() == ("a.>", "c")
    assert ReadSelection(patterns=("a.*", "*.b")).api_filters() == ()
    assert ReadSelection(filters=("a.b",)).api_filters() == ("a.b",)
    assert ReadSelection(patterns=("x",), filters=("a.b",)).api_filters() == ("x",)
    assert ReadSelection().api_filters() == ()


def test_messages_that_no_pattern_matches_are_not_in_any_range(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    table.commit([table.write(columns(range(1, 20)))])
    assert Reading({"path": str(tmp_path), "subject": "returns.>"}).ranges() == []
    assert len(Reading({"path": str(tmp_path), "subject": "orders.>"}).ranges()) == 1
    assert len(Reading({"path": str(tmp_path), "subject": "*.1"}).ranges()) == 1
