"""What is asked about a new stream, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.session import Json
from headwater.cli.stream import questions as stream_questions


class Person:
    """Answers questions by what they begin with, and takes the default of all others."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def prompt(self, question: str, default: Any = "", **_: Any) -> str:
        """Answer with a text."""
        return str(self._answer(question, default))

    def confirm(self, question: str, default: bool = False, **_: Any) -> bool:
        """Answer with yes or no."""
        return bool(self._answer(question, default))

    def _answer(self, question: str, default: Any) -> Any:
        plain = question.removeprefix("? ")
        self.asked.append(plain)
        found = [answer for begin, answer in self.answers.items() if plain.startswith(begin)]
        return found[0] if found else default


def interview(
    monkeypatch: pytest.MonkeyPatch, config: Json, answers: dict[str, str]
) -> tuple[Json, list[str]]:
    """Return the config after the questions, and the questions."""
    person = Person(answers)
    monkeypatch.setattr("click.prompt", person.prompt)
    monkeypatch.setattr("click.confirm", person.confirm)
    return stream_questions.complete(config), person.asked


def test_an_archive_of_two_streams_is_asked_about_as_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"name": "ARCHIVE", "sources": [{"name": "ORDERS"}, {"name": "RETURNS"}]}
    made, asked = interview(monkeypatch, config, {'Adjust source "ORDERS" start': "yes"})
    assert asked == [
        "Storage backend (file/memory)",
        "Retention Policy (Limits/Interest/Work)",
        "Discard Policy (Old/New)",
        "Stream Messages Limit",
        "Message size limit",
        "Maximum message age limit",
        "Maximum individual message size",
        "Duplicate tracking time window",
        "Allow message Roll-ups",
        "Allow message deletion",
        "Allow purging subjects or the entire stream",
        "Replicas",
        'Adjust source "ORDERS" start',
        "ORDERS Source Start Sequence",
        "ORDERS Source UTC Time Stamp (YYYY-MM-DD HH:MM:SS)",
        "ORDERS Source Filter source by subject",
        'Import "ORDERS" from a different JetStream domain',
        'Import "ORDERS" from a different account',
        'Adjust source "RETURNS" start',
        'Import "RETURNS" from a different JetStream domain',
        'Import "RETURNS" from a different account',
    ]
    assert made["sources"] == config["sources"]
    assert (made["storage"], made["retention"], made["discard"]) == ("file", "limits", "old")
    assert (made["max_msgs"], made["max_bytes"], made["max_age"], made["max_msg_size"]) == (-1, -1, 0, -1)
    assert made["duplicate_window"] == 120 * 10**9
    assert (made["deny_delete"], made["deny_purge"], made["allow_rollup_hdrs"]) == (False, False, False)


def test_a_mirror_is_not_asked_about_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = interview(monkeypatch, {"name": "REPORT", "mirror": {"name": "ARCHIVE"}}, {})
    assert not any(question.startswith("Duplicate") for question in asked)
    assert asked[-3:] == [
        "Adjust mirror start",
        "Import mirror from a different JetStream domain",
        "Import mirror from a different account",
    ]


def test_what_the_flags_say_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"name": "X", "subjects": ["x"], "storage": "memory", "max_msgs": 5, "num_replicas": 1}
    made, asked = interview(monkeypatch, given, {})
    assert not any(q.startswith(("Subjects", "Storage", "Stream Messages", "Replicas")) for q in asked)
    assert made["max_msgs"] == 5


def test_a_stream_that_takes_nothing_is_asked_for_its_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = interview(
        monkeypatch, {"name": "X"}, {"Subjects": "a.>, b", "Storage": "mem", "Retention": "W"}
    )
    assert (made["subjects"], made["storage"], made["retention"]) == (["a.>", "b"], "memory", "workqueue")


def test_start_filter_and_domain_of_a_source_come_from_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = interview(
        monkeypatch,
        {"name": "X", "sources": [{"name": "O"}]},
        {
            'Adjust source "O" start': "yes",
            "O Source UTC": "2026-01-02 03:04:05",
            "O Source Filter": "o.new",
            'Import "O" from a different JetStream': "yes",
            "O Source foreign JetStream domain name": "hub",
        },
    )
    assert made["sources"] == [
        {
            "name": "O",
            "opt_start_time": "2026-01-02T03:04:05Z",
            "filter_subject": "o.new",
            "external": {"api": "$JS.hub.API", "deliver": ""},
        }
    ]
    assert not any("different account" in question for question in asked)


def test_the_account_of_a_mirror_comes_from_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = interview(
        monkeypatch,
        {"name": "X", "mirror": {"name": "O"}},
        {
            "Adjust mirror start": "yes",
            "Mirror Start Sequence": "12",
            "Import mirror from a different account": "yes",
            "Mirror foreign account API prefix": "hub.api",
            "Mirror foreign account delivery prefix": "hub.deliver",
        },
    )
    assert made["mirror"] == {
        "name": "O",
        "opt_start_seq": 12,
        "external": {"api": "hub.api", "deliver": "hub.deliver"},
    }
    assert not any("UTC" in question for question in asked)


def test_an_upstream_given_as_json_has_said_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = interview(monkeypatch, {"name": "X", "mirror": {"name": "O", "opt_start_seq": 3}}, {})
    assert not any("mirror" in question for question in asked)


def test_a_name_is_asked_for_until_a_stream_can_be_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["", "a b", "a.b", "ORDERS"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(typed))
    assert stream_questions.ask_name() == "ORDERS"
