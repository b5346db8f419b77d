"""API errors are rows of data, raised by name."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

import pytest

from headwater.errors import ROWS, DiskError, Error, api_error


def test_an_error_carries_the_numbers_and_text_of_its_row() -> None:
    error = api_error("stream_not_found")
    assert (error.code, error.err_code, error.description) == (404, 10059, "stream not found")
    assert isinstance(error, Error)


def test_placeholders_are_filled() -> None:
    error = api_error("stream_wrong_last_sequence", seq=7)
    assert error.description == "wrong last sequence: 7"
    assert api_error("bad_config", err="a {brace} stays").description == "a {brace} stays"


def test_an_unknown_name_is_a_bug() -> None:
    with pytest.raises(KeyError):
        api_error("no_such_row")


def test_names_and_err_codes_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({row.err_code for row in ROWS}) == len(ROWS)


def test_only_passing_troubles_are_retryable() -> None:
    assert api_error("stream_store_failed", err="x").retryable
    assert api_error("stream_too_many_requests").retryable
    assert not api_error("stream_not_found").retryable


def test_a_full_disk_is_the_same_sentence_for_every_data_file() -> None:
    table = Path("store/A/table")
    first, second = (
        DiskError(table / "base_seq=0" / "source=__HIVE_DEFAULT_PARTITION__" / name, "write", ENOSPC)
        for name in ("part-1.tmp", "part-2.tmp")
    )
    assert str(first) == str(second) == "cannot write a file in store/A/table: the disk is full"
    assert first.path != second.path
