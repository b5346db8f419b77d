"""The trie finds what a filter of each pattern finds, and forgets removed patterns."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.subject import Filter
from headwater.model.subject_trie import SubjectTrie

TOKENS = st.sampled_from(["a", "b", "c", "*", ">", "*x", "", "a*"])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c", "d", "a*", ""]), min_size=1, max_size=5).map(".".join)


@given(st.lists(PATTERNS, max_size=12, unique=True), st.lists(SUBJECTS, max_size=8), st.data())
def test_a_trie_finds_what_filters_find(
    patterns: list[str], subjects: list[str], data: st.DataObject
) -> None:
    trie: SubjectTrie[int] = SubjectTrie()
    held = dict(enumerate(patterns))
    for value, pattern in held.items():
        trie.insert(pattern, value)
    for value in data.draw(st.lists(st.sampled_from(sorted(held)), unique=True)) if held else ():
        trie.remove(held.pop(value), value)
    for subject in map(str.encode, subjects):
        wanted = {value for value, pattern in held.items() if Filter(pattern).matches(subject)}
        assert trie.match(subject) == wanted
        assert trie.has(subject) == bool(wanted)


def test_nothing_is_left_of_what_is_taken_back() -> None:
    trie: SubjectTrie[str] = SubjectTrie()
    for pattern in ("a.b", "a.*", "a.>", ">", "a.b.c"):
        trie.insert(pattern, "one")
        trie.insert(pattern, "two")
    for pattern in ("a.b", "a.*", "a.>", ">", "a.b.c"):
        trie.remove(pattern, "one")
    assert trie.match(b"a.b") == {"two"}
    for pattern in ("a.b", "a.*", "a.>", ">", "a.b.c"):
        trie.remove(pattern, "two")
    assert not trie
    assert trie.match(b"a.b") == set()


def test_a_match_looks_only_at_what_may_take_the_subject() -> None:
    trie: SubjectTrie[int] = SubjectTrie()
    for number in range(5_000):
        trie.insert(f"orders.{number}.*", number)
    assert len(list(trie._matching(b"orders.17.new"))) == 1
    assert trie.match(b"orders.17.new") == {17}
    assert trie.steps <= 6


def test_very_many_patterns_leave_nothing_for_the_garbage_collector() -> None:
    trie: SubjectTrie[bool] = SubjectTrie()
    gc.collect()
    before = len(gc.get_objects())
    for number in range(5_000):
        trie.insert(f"orders.{number}.*.{number}.>", True)
    gc.collect()
    assert len(gc.get_objects()) - before < 1_000
