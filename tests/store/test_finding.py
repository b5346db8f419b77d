"""A finding reads as one line: what, where, what it means, what to do."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.errors import CorruptionError
from headwater.store.finding import Finding, Kind, note, of_stream, problem


def test_a_problem_is_one_line() -> None:
    found = of_stream(problem(Kind.DATA, "/s/f", "it is cut", "Some are lost."), "$G", "S")
    assert str(found) == "data: $G/S: /s/f: it is cut. Some are lost. Run `headwater store repair`."
    assert found.is_problem


def test_a_note_is_no_problem() -> None:
    assert not note("/s", "look").is_problem
    assert str(note("/s", "look")) == "note: /s: look."


def test_a_finding_can_be_read_by_a_program() -> None:
    found = problem(Kind.LOG, "/s", "what", "meaning", "remedy")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found


def test_place_and_remedy_are_said_once() -> None:
    error = CorruptionError(Path("/s/file"), 7, "its checksum does not match; run `headwater store repair`")
    found = problem(Kind.DATA, "/s/file", error, "Its messages cannot be served")
    assert str(found) == (
        "data: /s/file: damaged at byte 7: its checksum does not match."
        " Its messages cannot be served. Run `headwater store repair`."
    )


def test_the_file_that_is_damaged_is_the_place() -> None:
    error = CorruptionError(Path("/s/table/_delta_log/1.json"), 0, "it cannot be decoded")
    found = problem(Kind.TABLE, "/s/table", error, "The stream is offline")
    assert (found.where, found.what) == (
        "/s/table/_delta_log/1.json",
        "damaged at byte 0: it cannot be decoded",
    )
    other = problem(Kind.TABLE, "/t", error, "The stream is offline")
    assert (other.where, other.what) == ("/t", str(error))
