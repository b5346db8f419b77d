"""Subjects survive being text, and statistics say what a file holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.copied import Copied
from headwater.table import schema
from headwater.table.datafile import DataFile

FILE = DataFile("data/x.parquet", 100, 3, 101, 105, 10, 1_500_000, 2_500_999, "a.b", "z", 2)


@given(st.binary(max_size=30))
def test_any_subject_comes_back_from_its_text(subject: bytes) -> None:
    assert schema.subject_bytes(schema.subject_text(subject)) == subject


@given(st.text(max_size=30))
def test_any_text_comes_back_though_it_begins_with_the_mark(text: str) -> None:
    subject = ("\ufffd" + text).encode()
    assert schema.subject_bytes(schema.subject_text(subject)) == subject


def test_a_subject_that_is_text_is_stored_as_it_is() -> None:
    assert schema.subject_text("größe.ok".encode()) == "größe.ok"


def test_different_subjects_have_different_texts() -> None:
    subjects = [b"\xff", "\ufffd\xff".encode(), "\xff".encode(), "\ufffd".encode()]
    assert len({schema.subject_text(subject) for subject in subjects}) == len(subjects)


def test_statistics_name_offsets_times_and_subjects() -> None:
    stats = json.loads(schema.stats_json(FILE))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"offset": 1, "time": "1970-01-01T00:00:00.001500Z", "subject": "a.b"}
    assert stats["maxValues"] == {"offset": 5, "time": "1970-01-01T00:00:00.002500Z", "subject": "z"}
    assert stats["nullCount"] == {"offset": 0, "subject": 0, "time": 0, "nanos": 0, "data": 0, "headers": 2}


def test_a_very_long_subject_is_no_bound() -> None:
    stats = json.loads(schema.stats_json(replace(FILE, last_subject="z" * 129)))
    assert "subject" in stats["minValues"]
    assert "subject" not in stats["maxValues"]


def test_files_come_back_from_add_actions_in_order() -> None:
    earlier = FILE.at(10, "data/y.parquet")
    adds = pa.table(
        {
            "path": [f.path for f in (FILE, earlier)],
            "partition.base_seq": [100, 10],
            "num_records": [3, 3],
            "min.offset": [1, 1],
            "max.offset": [5, 5],
            "size_bytes": [10, 10],
            "min.time": pa.array([1500, 1500], schema.TIME),
            "max.time": pa.array([2500, 2500], schema.TIME),
            "min.subject": ["a.b", "a.b"],
            "max.subject": ["z", "z"],
            "null_count.headers": [2, 2],
        }
    )
    assert schema.data_files(adds) == [earlier, FILE]


COPIED = Copied("ORDERS", "Ab1", 4, 7, 1, 2, with_headers=0)
NULL = "__HIVE_DEFAULT_PARTITION__"


def test_a_folder_names_the_same_columns_for_every_file() -> None:
    linked = schema.folder_of(-9, COPIED)
    assert linked == "base_seq=-9/source=ORDERS/source_id=Ab1/source_base=4/copied_micros=7"
    own = f"base_seq=0/source={NULL}/source_id={NULL}/source_base={NULL}/copied_micros={NULL}"
    assert schema.folder_of(0) == own
    assert schema.folder_of(5, None, [schema.PARTITION]) == "base_seq=5"


def test_partition_values_tell_where_a_file_came_from_or_nothing() -> None:
    assert schema.partition_values(3, None) == dict.fromkeys(schema.PARTITIONS) | {"base_seq": "3"}
    assert list(schema.partition_values(-9, COPIED).values()) == ["-9", "ORDERS", "Ab1", "4", "7"]
