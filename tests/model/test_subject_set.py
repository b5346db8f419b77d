"""A set of patterns gives the same collisions as comparing each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.subject import collides, valid_subject
from headwater.model.subject_set import SubjectSet

TOKENS = st.sampled_from(["a", "b", "*", ">", "*x", "c"])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join).filter(valid_subject)


@given(st.lists(PATTERNS, max_size=20), PATTERNS)
def test_the_collisions_are_those_of_comparing_each(patterns: list[str], asked: str) -> None:
    wanted = [index for index, pattern in enumerate(patterns) if collides(pattern, asked)]
    assert sorted(SubjectSet(patterns).colliding(asked)) == wanted


def test_a_literal_looks_only_at_what_may_match() -> None:
    listed = SubjectSet([f"many.{number}" for number in range(100_000)])
    assert all(list(listed.colliding(f"many.{number}")) == [number] for number in range(0, 100_000, 10))


def test_a_pattern_that_stands_twice_is_found_twice() -> None:
    assert sorted(SubjectSet(["a", "b", "a"]).colliding("a")) == [0, 2]
