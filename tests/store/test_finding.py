"""A finding reads as one line: what, where, what it means, what to do."""

from __future__ import annotations

import msgspec

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
