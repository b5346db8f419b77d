"""A document knows the position of each of its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.site.document import Entry, listed, optional, read_document


def document(directory: Path, text: str) -> Entry:
    """Return a document with this text."""
    path = directory / "a.yaml"
    path.write_text(text)
    return read_document(path)


def test_values_are_read_with_their_lines_and_paths(tmp_path: Path) -> None:
    held = document(tmp_path, "a: 1\nb:\n  - x\n  - c: true\n").fields("a", "b")
    assert (held["a"].number(0, 9), held["a"].line) == (1, 1)
    second = held["b"].items()[1].entries()["c"]
    assert (second.truth(), second.line, second.path) == (True, 4, "b[1].c")
    assert held["b"].json() == ["x", {"c": True}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot: 1\n", ":1: prot: unknown key 'prot': did you mean port?"),
        ("x: 1\nzzzz: 1\n", ":2: zzzz: unknown key 'zzzz': use port, x"),
        ("x: 1\nx: 2\n", ":2: x: the key is listed twice"),
        ("a: [1\n", "this is not YAML"),
        ("a: {b: *c}\n", "undefined alias"),
        ("", "is empty"),
        ("- 1\n", "must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        document(tmp_path, text).fields("x", "port")
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a: 70000", lambda e: e.number(1, 65535)),
        ("a: true", lambda e: e.number(0, 9)),
        ("a: 'yes'", Entry.truth),
        ("a: [1]", Entry.text),
        ("a: ", Entry.text),
        ("a: 1", Entry.items),
        ("a: z", lambda e: e.choice("x", "y")),
        ("a: none.json", Entry.existing),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, text: str, read: object) -> None:
    entry = document(tmp_path, text + "\n").entries()["a"]
    with pytest.raises(SettingsError, match=r"a\.yaml:1: a: "):
        read(entry)  # type: ignore[operator]


def test_plain_values_are_text_as_they_were_written(tmp_path: Path) -> None:
    held = document(tmp_path, "a: 1234\nb: true\nc: 2026-01-02T03:04:05Z\nd: $2a$11$x\n").entries()
    assert [held[name].text() for name in "abcd"] == ["1234", "true", "2026-01-02T03:04:05Z", "$2a$11$x"]


def test_a_file_is_looked_for_beside_the_document(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    assert document(tmp_path, "a: s.json\n").entries()["a"].existing() == tmp_path / "s.json"


def test_nothing_is_an_empty_mapping_and_an_empty_list(tmp_path: Path) -> None:
    entry = document(tmp_path, "a:\n").entries()["a"]
    assert (entry.entries(), entry.items()) == ({}, [])
    assert optional({}, "a", Entry.text, "other") == "other"
    assert (listed([]), listed("ab")) == ("none", "a, b")


def test_a_document_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        read_document(tmp_path / "none.yaml")
