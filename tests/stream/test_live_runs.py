"""One walk over live messages: blocking and on the event loop, bounded, and aware of concurrent removals."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.stream.live_runs import live_part, read_live_runs
from stream.streams import Workshop, publish


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    removed=st.sets(st.integers(1, 20)),
    start=st.integers(0, 22),
    stop=st.none() | st.integers(0, 22),
    folded=st.integers(0, 5),
)
async def test_both_walks_yield_the_live_messages_of_a_range(
    workshop: Workshop, sizes: list[int], removed: set[int], start: int, stop: int | None, folded: int
) -> None:
    async with workshop.stream() as stream:
        await stream.retention.purge()
        base = stream.reading.last_seq
        for number, size in enumerate(sizes):
            await publish(stream, *[(b"a", b"")] * size)
            if number == folded:
                await stream.folder.fold()
        for seq in removed:
            await stream.retention.remove(base + seq)
        low, high = base + start, None if stop is None else base + stop
        store = stream._store
        wanted = [
            seq
            for seq in range(low, (stream.reading.last_seq if high is None else high) + 1)
            if stream.reading.is_live(seq)
        ]
        found = [seq async for run, rows in store.live_runs(low, high) for seq in run.seqs[rows].tolist()]
        walk = read_live_runs(store.ledger, store.view.read_run_at, low, high)
        assert found == wanted == [seq for run, rows in walk for seq in run.seqs[rows].tolist()]


async def test_what_is_removed_during_the_walk_is_not_in_the_runs_behind(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 2)
        await publish(stream, *[(b"a", b"")] * 2)
        found: list[list[int]] = []
        async for run, rows in stream._store.live_runs(0):
            found.append(run.seqs[rows].tolist())
            await stream.retention.remove(3)
        assert found == [[1, 2], [4]]


async def test_a_run_without_live_rows_in_the_range_is_yielded_empty(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 4)
        run = await stream.reading.run_at(1)
        assert run is not None
        assert live_part(stream._store.ledger, run, 2, 3).rows.tolist() == [1, 2]
        await stream.retention.remove(2)
        assert live_part(stream._store.ledger, run, 2, 2).rows.tolist() == []
