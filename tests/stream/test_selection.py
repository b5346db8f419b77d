"""Many patterns over many subjects: the right ones are found, and no turn of the event loop does too much."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.patterns import MANY
from headwater.model.subject import Filter
from headwater.model.subject_trie import SubjectTrie
from headwater.stream import selection
from headwater.stream.selection import Selection, select, slices

TOKENS = st.sampled_from(["a", "b", "*", ">", "*x"])
PATTERNS = st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(".".join), max_size=2 * MANY + 2)
SUBJECTS = st.sets(
    st.lists(st.sampled_from([b"a", b"b", b"*x"]), min_size=1, max_size=3).map(b".".join), max_size=12
)


@given(PATTERNS, SUBJECTS)
def test_what_any_pattern_takes_is_selected(patterns: list[str], subjects: set[bytes]) -> None:
    wanted = {subject for subject in subjects if any(Filter(p).matches(subject) for p in patterns)}
    assert asyncio.run(select(patterns, subjects)) == wanted


@pytest.mark.parametrize("count", [2, 2000])
async def test_beyond_a_limit_it_stops_looking(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [b"s.%d.%d" % (number % 2000, number) for number in range(50_000)]
    asked: list[bytes] = []
    has = SubjectTrie.has

    def counted(tree: SubjectTrie[bool], subject: bytes) -> bool:
        asked.append(subject)
        return has(tree, subject)

    monkeypatch.setattr(SubjectTrie, "has", counted)
    found = await select([f"s.{n}.*" for n in range(count)], subjects, 10)
    assert len(found) > 10
    assert len(asked) <= 11


async def test_no_turn_looks_at_more_branches_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subject matches very many of the patterns."""
    patterns = ["*" + "".join([".*", ".a"][number >> bit & 1] for bit in range(8)) for number in range(256)]
    subjects = [b"%d" % number + b".a" * 7 + b".z" for number in range(2000)]
    most = 0

    class Watched(SubjectTrie[bool]):
        def has(self, subject: bytes) -> bool:
            nonlocal most
            found = super().has(subject)
            most = max(most, self.steps)
            return found

    monkeypatch.setattr(selection, "SubjectTrie", Watched)
    found = await select([pattern for pattern in patterns if not pattern.endswith("*")], subjects)
    assert not found
    assert 0 < most < selection.STEPS + 1000


async def test_literals_are_looked_up_and_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = dict.fromkeys([b"s.%d" % number for number in range(1000)], 1)
    monkeypatch.setattr(Selection, "_by_tree", None)
    monkeypatch.setattr(Selection, "_one_by_one", None)
    assert await select([f"s.{n}" for n in range(0, 3000, 3)], subjects) == {
        b"s.%d" % n for n in range(0, 1000, 3)
    }


def test_slices_hold_everything_in_order() -> None:
    subjects = [b"%d" % number for number in range(selection.SLICE + 5)]
    assert [len(some) for some in slices(subjects)] == [selection.SLICE, 5]
    assert [subject for some in slices(subjects) for subject in some] == subjects
