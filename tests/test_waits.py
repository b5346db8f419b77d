"""A wait checks often at first and less often later, and fails with what it waited for."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from waits import FIRST_PAUSE_S, LONGEST_PAUSE_S, pauses, until


def test_pauses_become_longer_up_to_a_bound() -> None:
    first = list(islice(pauses(), 50))
    assert (first[0], first[-1]) == (FIRST_PAUSE_S, LONGEST_PAUSE_S)
    assert all(earlier <= later for earlier, later in pairwise(first))


async def test_a_wait_ends_when_its_condition_holds() -> None:
    looks = []

    async def third_time() -> bool:
        looks.append(1)
        return len(looks) == 3

    await until(third_time)
    assert len(looks) == 3


async def test_a_wait_that_does_not_end_says_for_what() -> None:
    with pytest.raises(AssertionError, match=r"not in 0.02 s: the third look\nlast words"):
        await until(lambda: False, "the third look", lambda: "last words", patience_s=0.02)
