"""Files that wait to enter the table are returned in order, and only readers that need them wait."""

from __future__ import annotations

import asyncio

import pytest

from headwater.errors import Error
from headwater.model.adopted import Adopted
from headwater.stream.replica.adoptions import Adoptions


def a_file(first: int, last: int) -> Adopted:
    return Adopted("f", last - first + 1, first, last, 1, 1, 1, 0, 1, "s", "s", {})


async def test_files_are_returned_in_order_up_to_a_sequence() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(11, 20), a_file(1, 10), a_file(21, 30)])
    assert [file.first_seq for file in adoptions.through(20)] == [1, 11]
    assert adoptions.first_seq == 1
    assert adoptions.holding(25) is not None
    assert adoptions.holding(31) is None


async def test_a_wait_for_some_files_does_not_wait_for_later_ones() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(1, 10), a_file(11, 20)])
    first, all_of_them = (asyncio.ensure_future(adoptions.ended(seq)) for seq in (10, None))
    await asyncio.sleep(0)
    adoptions.done(10)
    await first
    assert not all_of_them.done()
    adoptions.done(20)
    await all_of_them
    assert not adoptions


async def test_a_file_that_was_refused_is_withdrawn_but_not_the_next_one_in_its_place() -> None:
    adoptions, refused, next_one = Adoptions(), a_file(1, 10), a_file(1, 5)
    adoptions.announce([refused])
    adoptions.replace([])
    adoptions.announce([next_one])
    adoptions.withdraw([refused])
    assert adoptions.through(10) == [next_one]
    adoptions.withdraw([next_one])
    assert not adoptions


async def test_waits_for_a_closed_stream_end() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(1, 10)])
    waiting = asyncio.ensure_future(adoptions.ended())
    await asyncio.sleep(0)
    adoptions.close()
    with pytest.raises(Error, match="closed"):
        await waiting
