"""Patterns together match what any of them matches, few or many."""

from __future__ import annotations

import pytest

from headwater.model.patterns import MANY, Patterns


@pytest.mark.parametrize("more", [0, 5 * MANY])
def test_what_any_of_them_takes_is_taken(more: int) -> None:
    patterns = Patterns(["a.*", "b", "c.>", "x..y", *(f"n.{n}.*" for n in range(more))])
    taken = [s for s in (b"a.1", b"a", b"b", b"c", b"c.d.e", b"x..y", b"n.3.4") if patterns.takes(s)]
    assert taken == [b"a.1", b"b", b"c.d.e", b"x..y", *([b"n.3.4"] if more else [])]


@pytest.mark.parametrize("given", [(), (">",), ("a", ">"), ("a",) * 20 + (">",)])
def test_without_patterns_or_with_that_of_all_every_subject_is_taken(given: tuple[str, ...]) -> None:
    patterns = Patterns(given)
    assert patterns.takes_all
    assert patterns.takes(b"anything.at.all")
