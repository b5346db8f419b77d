"""Templates: what each part becomes, and which parts are refused before anything is sent."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from headwater.cli.templates import LETTERS, Moment, Template
from headwater.errors import Error

AT = datetime(2026, 1, 2, 15, 4, 5, 678_901, tzinfo=UTC)
MOMENT = Moment(7, AT)


def filled(text: str, moment: Moment = MOMENT) -> str:
    return Template(text).fill(moment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("message {{Count}}", "message 7"),
        ("{{ Cnt }}/{{.Count}}", "7/7"),
        ("{{Time}}", "3:04PM"),
        ("{{TimeStamp}}", "2026-01-02T15:04:05Z"),
        ("{{Unix}}", "1767366245"),
        ("{{UnixNano}}", "1767366245678901000"),
        ("orders.{{Count}}.new", "orders.7.new"),
        ('{{"{{Count}}"}}', None),
        ("a  {{- Count -}}  b", "a7b"),
        ('{{"Count"}} {{`x`}}', "Count x"),
        ("no braces at all }}", "no braces at all }}"),
        ('{"json": {"a": 1}}', '{"json": {"a": 1}}'),
        ("", ""),
    ],
)
def test_each_part_says_what_the_nats_command_says(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(Error):
            Template(text)
    else:
        assert filled(text) == expected


def test_a_time_with_a_zone_keeps_it() -> None:
    here = AT.astimezone(timezone(timedelta(hours=2)))
    assert filled("{{TimeStamp}} {{Unix}}", Moment(1, here)) == "2026-01-02T17:04:05+02:00 1767366245"


def test_midnight_is_twelve() -> None:
    assert filled("{{Time}}", Moment(1, AT.replace(hour=0))) == "12:04AM"


def test_random_text_is_as_long_as_asked_whichever_bound_stands_first() -> None:
    lengths = {len(filled("{{Random 3 5}}")) for _ in range(200)} | {len(filled("{{Random 5 3}}"))}
    assert lengths == {3, 4, 5}
    assert len(filled("{{Random 8 8}}")) == 8
    assert set(filled("{{Random 500 500}}")) <= set(LETTERS)


def test_an_id_is_never_the_same_twice() -> None:
    first, second = filled("{{ID}} {{ID}}").split()
    assert first != second
    assert re.fullmatch(r"[0-9A-Za-z]{22}", first)


def test_a_reply_may_speak_of_its_request() -> None:
    template = Template("you said {{.Request}}, {{Request}}", request=True)
    assert template.fill(Moment(1, AT, "hello")) == "you said hello, hello"
    with pytest.raises(Error, match="unknown template function"):
        Template("{{Request}}")


@pytest.mark.parametrize("text", ["{{Cuont}}", "{{}}", "{{Random 1}}", "{{Random a b}}", "{{Count 1}}"])
def test_an_invalid_template_is_refused_by_name(text: str) -> None:
    with pytest.raises(Error, match="unknown template function " + re.escape(text) + ": use Count, Time"):
        Template(text)


def test_a_text_longer_than_any_message_is_refused() -> None:
    with pytest.raises(Error, match="longer than a message can be"):
        Template("{{Random 1 99999999999}}")


def test_open_braces_are_refused_with_the_way_out() -> None:
    with pytest.raises(Error, match="--no-templates"):
        Template("a {{Count")


def test_without_parts_the_text_stays_as_it_is() -> None:
    assert Template("{{Count}} {{", parts=False).fill(MOMENT) == "{{Count}} {{"


def test_a_template_knows_whether_its_results_differ() -> None:
    assert Template("same").plain
    assert not Template("{{Count}}").plain
