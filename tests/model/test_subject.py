"""Subjects and patterns behave as nats-server treats them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import subject
from headwater.model.subject import Filter

PATTERN_TOKENS = st.sampled_from(["a", "b", "*"])
PATTERNS = st.builds(
    lambda parts, tail: ".".join([*parts, *tail]),
    st.lists(PATTERN_TOKENS, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
) | st.just(">")
LITERALS = st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(".".join)
UNIVERSE = [".".join(p) for n in range(1, 6) for p in itertools.product("abc", repeat=n)]


@pytest.mark.parametrize("good", ["a", "a.b", "*", ">", "a.*.>", "$JS.API", "a*.b", "a>.b", "é.ü"])
def test_these_subjects_are_valid(good: str) -> None:
    assert subject.valid_subject(good)


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a..b", ">.a", "a.>.b", "a b", "a.\t", "\n", "a\fb"])
def test_these_subjects_are_invalid(bad: str) -> None:
    assert not subject.valid_subject(bad)


def test_a_wildcard_is_one_only_as_a_whole_token() -> None:
    assert subject.is_literal("a*.b>")
    assert not subject.is_literal("a.*")
    assert not subject.is_literal(">")


def test_a_literal_is_publishable_only_if_valid() -> None:
    assert subject.valid_literal("a.b")
    assert not subject.valid_literal("a.*")
    assert not subject.valid_literal("a..b")


@pytest.mark.parametrize(
    ("a", "b", "inside"),
    [
        ("a.b", "a.*", True),
        ("a.*", "a.b", False),
        ("a.*", "a.*", True),
        ("a.*", "a.>", True),
        ("a.>", "a.*", False),
        ("a.>", ">", True),
        ("a", "a.>", False),
        ("a.b.c", "a.*", False),
        ("*.*", "*.>", True),
    ],
)
def test_one_pattern_is_inside_another(a: str, b: str, inside: bool) -> None:
    assert subject.is_subset(a, b) is inside


@given(LITERALS, PATTERNS)
def test_a_filter_agrees_with_the_plain_match(literal: str, pattern: str) -> None:
    assert Filter(pattern).matches(literal.encode()) == subject.matches(literal, pattern)


@given(PATTERNS, PATTERNS)
def test_two_patterns_collide_exactly_when_a_literal_is_taken_by_both(a: str, b: str) -> None:
    both = any(subject.matches(s, a) and subject.matches(s, b) for s in UNIVERSE)
    assert subject.collides(a, b) == both
    assert subject.collides(b, a) == both


@given(PATTERNS, PATTERNS)
def test_a_subset_takes_nothing_that_the_other_does_not(a: str, b: str) -> None:
    inside = all(subject.matches(s, b) for s in UNIVERSE if subject.matches(s, a))
    assert subject.is_subset(a, b) == inside


def test_a_filter_knows_its_kind() -> None:
    assert Filter(">").is_all
    assert Filter("a.b").is_literal
    assert not Filter("a.>").is_literal


def test_a_filter_takes_bytes_beyond_ascii() -> None:
    assert Filter("é.*").matches("é.ü".encode())
    assert not Filter("é.*").matches(b"e.u")


def test_the_memory_of_a_filter_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_CACHE_LIMIT", 3)
    filter = Filter("a.*.c")
    for n in range(10):
        assert filter.matches(b"a.%d.c" % n)
        assert not filter.matches(b"a.%d.d" % n)
        assert len(filter._cache) <= 3


@pytest.mark.parametrize("pattern", [">.>", ">.a", "a.>.b", "a..b", ".a", "a.", "", "a b.>"])
def test_a_pattern_that_is_not_valid_matches_nothing(pattern: str) -> None:
    assert not any(Filter(pattern).matches(text.encode()) for text in UNIVERSE if text != pattern)


def test_a_hostile_pattern_takes_no_more_steps_than_it_has_tokens() -> None:
    """With backtracking, each of these would take longer than the whole test run."""
    subject_text = ".".join("a" * 2000).encode()
    for hostile in (">." * 60 + "x", "*." * 1999 + "x", "*." * 1000 + ">.x", "*." * 3000 + ">"):
        assert not Filter(hostile).matches(subject_text)
    assert Filter("*." * 1999 + "a").matches(subject_text)


@given(PATTERNS, LITERALS)
def test_a_filter_takes_what_the_pattern_takes(pattern: str, literal: str) -> None:
    assert Filter(pattern).matches(literal.encode()) == subject.matches(literal, pattern)


@given(PATTERNS)
def test_a_filter_finds_the_same_among_many_as_one_by_one(pattern: str) -> None:
    subjects = [text.encode() for text in UNIVERSE] + [b"a.", b".a", b"a..b", b"", b"a.\n", "é.b".encode()]
    chosen = Filter(pattern)
    assert list(chosen.among(subjects)) == [each for each in subjects if chosen.matches(each)]


@pytest.mark.parametrize(
    "pattern", [">.>", "a.>.b", "a..b", "", "*." * 100 + "a", "*." * 99 + ">", "a+.*", "[a].>"]
)
def test_odd_patterns_find_the_same_among_many(pattern: str) -> None:
    subjects = [b"a.b", b"a+.b", b"aa.b", b"[a].b", b"a.b.c", b".".join([b"a"] * 101)]
    chosen = Filter(pattern)
    assert list(chosen.among(subjects)) == [each for each in subjects if chosen.matches(each)]


def test_a_hostile_pattern_among_many_takes_no_more_steps_than_it_has_tokens() -> None:
    """With backtracking, this would take longer than the whole test run."""
    subjects = [b".".join([b"a" * 500] * 60) + b".%d" % n for n in range(50)]
    assert list(Filter("*." * 60 + "x").among(subjects)) == []
    assert len(list(Filter("*." * 60 + "*").among(subjects))) == 50
