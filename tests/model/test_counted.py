"""A noun behind a count is in the singular only after 1."""

from __future__ import annotations

import pytest

from headwater.model.counted import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 streams"), (1, "1 stream"), (2, "2 streams"), (1200, "1,200 streams")]
)
def test_a_noun_is_singular_only_after_one(count: int, text: str) -> None:
    assert counted(count, "stream") == text


def test_an_irregular_plural_is_given() -> None:
    assert counted(1, "child process", "child processes") == "1 child process"
    assert counted(3, "child process", "child processes") == "3 child processes"
