"""A pattern inside another is found as by comparing each with each, in few steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import nested_subjects
from headwater.model.nested_subjects import NestedSubjects
from headwater.model.subject import is_subset

TOKENS = st.sampled_from(["a", "b", "*", ">", "*x", "**", ">x", ""])
PATTERNS = st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(".".join), max_size=8)


@given(PATTERNS)
def test_it_is_what_comparing_each_with_each_finds(patterns: list[str]) -> None:
    nested = NestedSubjects(patterns)
    for index, pattern in enumerate(patterns):
        others = patterns[:index] + patterns[index + 1 :]
        wanted = any(is_subset(pattern, other) for other in others)
        assert nested.is_inside_another(index) == wanted, (pattern, others)


def test_twenty_thousand_patterns_are_compared_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = [*(f"a{n}.*" for n in range(10_000)), *(f"*.b{n}" for n in range(10_000))]
    nested = NestedSubjects(patterns)
    steps = 0
    takers = nested_subjects._takers

    def counted(part: str) -> tuple[str, ...]:
        nonlocal steps
        steps += 1
        return takers(part)

    monkeypatch.setattr(nested_subjects, "_takers", counted)
    assert not any(nested.is_inside_another(index) for index in range(len(patterns)))
    assert steps <= 4 * len(patterns)
