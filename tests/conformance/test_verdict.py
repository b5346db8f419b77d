"""A difference counts when it shows twice."""

import logging
from collections.abc import Iterator

import pytest

from conformance import known
from conformance.known import KnownDifference
from conformance.probe import Answer
from conformance.verdict import Record, Recordings, judged


def recordings(theirs: object, ours: object, label: str = "info") -> Recordings:
    return [Answer(label, "ask", theirs)], [Answer(label, "ask", ours)]


def one_after_the_other(*runs: Recordings | Exception) -> Record:
    coming: Iterator[Recordings | Exception] = iter(runs)

    async def record() -> Recordings:
        run = next(coming)
        if isinstance(run, Exception):
            raise run
        return run

    return record


ALIKE = recordings({"a": 1}, {"a": 1})
UNLIKE = recordings({"a": 1}, {"a": 2})


async def test_servers_that_agree_are_asked_once() -> None:
    assert (await judged("s", one_after_the_other(ALIKE))).agrees


async def test_a_difference_that_shows_twice_counts() -> None:
    verdict = await judged("s", one_after_the_other(UNLIKE, UNLIKE))
    assert [one.path for one in verdict.unexplained] == ["a"]
    assert "nats-server 1, here 2" in str(verdict)


async def test_a_difference_that_shows_once_is_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert (await judged("s", one_after_the_other(UNLIKE, ALIKE))).agrees
    assert "nats-server 1, here 2" in caplog.text


@pytest.mark.parametrize(
    ("second", "agrees"),
    [
        (recordings({"a": 1, "b": 1}, {"a": 1, "b": 2}), True),
        (recordings({"a": 1}, {"a": 2}, "another step"), True),
        (recordings({"a": [1]}, {"a": []}), False),
        (recordings(1, 2), False),
    ],
    ids=["another field", "another answer", "the same field otherwise", "the whole answer"],
)
async def test_only_the_same_field_counts_as_the_same_difference(second: Recordings, agrees: bool) -> None:
    assert (await judged("s", one_after_the_other(UNLIKE, second))).agrees is agrees


async def test_a_script_that_breaks_off_runs_once_more() -> None:
    assert (await judged("s", one_after_the_other(ValueError("late"), ALIKE))).agrees
    assert not (await judged("s", one_after_the_other(ValueError("late"), UNLIKE))).agrees
    with pytest.raises(ValueError, match="again"):
        await judged("s", one_after_the_other(ValueError("late"), ValueError("again")))


async def test_a_known_difference_must_show_in_one_of_two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    row = KnownDifference("the field", ("s",), ("info",), "a", "1", "2", "because")
    monkeypatch.setattr(known, "KNOWN", (row,))
    assert (await judged("s", one_after_the_other(UNLIKE))).agrees
    assert (await judged("s", one_after_the_other(ALIKE, UNLIKE))).agrees
    assert (await judged("s", one_after_the_other(ALIKE, ALIKE))).stale == (row,)
