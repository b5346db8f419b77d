"""Two recordings are compared field by field."""

from typing import Any

import pytest

from conformance.difference import ABSENT, compare, fields
from conformance.probe import Answer


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [("a/c", 2, ABSENT)]),
        ({}, {"a": None}, [("a", ABSENT, None)]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [("a[1]/b", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": 0}, {"a": ""}, [("a", 0, "")]),
        ({"a": None}, {"a": []}, [("a", None, [])]),
    ],
)
def test_the_deepest_field_that_differs_is_named(expected: Any, actual: Any, found: list[Any]) -> None:
    assert list(fields(expected, actual)) == found


def test_an_answer_that_one_side_lacks_is_a_difference() -> None:
    one, two = Answer("one", "ask", 1), Answer("two", "ask", 2)
    assert [(found.label, found.expected, found.actual) for found in compare("s", [one], [one, two])] == [
        ("two", ABSENT, 2)
    ]
    assert [(found.label, found.expected, found.actual) for found in compare("s", [one, two], [two])] == [
        ("one", 1, ABSENT)
    ]
    assert compare("s", [one, two], [one, two]) == []
