"""A receipt enters its target in parts, and each part with the cursor that covers it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.copiers import copying, count_is, create, held, publish
from headwater.errors import ApiError
from headwater.model.adopted import Adopted
from headwater.model.upstream import StreamSource
from headwater.replication.work import Receipt
from headwater.stream.replica.importer import CursorMovedError
from headwater.upstreams import receipts
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.upstream import Upstream


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("window", [0, 10**9])
async def test_a_staged_file_enters_whole_or_message_by_message(
    tmp_path: Path, storage: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.replication.worker.result.INLINE_BYTES", 100)
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 50)
        await create(door, name="S", storage=storage, duplicate_window=window, sources=[{"name": "O"}])
        staged: list[Receipt] = []
        copier.between = lambda given: staged.extend(given) or given  # type: ignore[func-returns-value]
        await copier.until(count_is(door, "S", 50))
        assert any(receipt.path or receipt.adopted for receipt in staged)
        assert [m.data for m in await held(door, "S")] == [m.data for m in await held(door, "O")]


async def test_a_full_target_is_an_error_and_the_cursor_stays_behind_what_was_taken(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", discard="new", max_msgs=2, sources=[{"name": "O"}])
        given: list[Receipt] = []
        copier.between = lambda made: given.extend(made) or []  # type: ignore[func-returns-value]
        await copier.tick()
        upstream = Upstream(door.domain.stream("S"), StreamSource(name="O"), mirrored=False)
        with pytest.raises(ApiError, match="full"):
            await receipts.take(upstream, given[0], CursorAt("x"))
        assert upstream.cursor.seq == 2


def receipt_of(work: str, expected: bytes, through: int, **fields: Any) -> Receipt:
    """Return a receipt that brings one file, unless it says otherwise."""
    file = Adopted(f"{work}.parquet", 1, 0, 0, 1, 1, 1, 0, 10, "s", "s", {b"s": (1, 0)})
    made: dict[str, Any] = {"target": "T", "upstream": "u", "rows": 1, "adopted": (file,)} | fields
    return Receipt(work=work, expected=expected, through=through, **made)


def test_files_that_follow_on_each_other_enter_in_one_change() -> None:
    at = CursorAt("id")
    one, two = receipt_of("1", b"", 5), receipt_of("2", at(5), 9)
    strays = [
        receipt_of("3", at(8), 10),
        receipt_of("4", at(10), 12, upstream="v"),
        receipt_of("5", at(12), 14, adopted=(), data=b"x"),
        receipt_of("6", at(14), 16, adopted=(), error="no"),
    ]
    identities = dict.fromkeys("123456", "id")
    found = list(receipts.runs([one, two, *strays], identities))
    assert found == [[one, two], *([stray] for stray in strays)]
    joined = receipts.joined(found[0])
    assert (joined.expected, joined.through, joined.rows) == (b"", 9, 2)
    assert [file.name for file in joined.adopted] == ["1.parquet", "2.parquet"]
    assert list(receipts.runs([one, two], {"1": "id"})) == [[one], [two]]


async def test_files_that_are_refused_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.replication.worker.result.INLINE_BYTES", 100)
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 50)
        await create(door, name="S", sources=[{"name": "O"}])
        given: list[Receipt] = []
        target = door.domain.stream("S")
        staging = target.directory / "staging"
        files: dict[str, bytes] = {}

        def kept(made: list[Receipt]) -> list[Receipt]:
            given.extend(made)
            files.update((path.name, path.read_bytes()) for path in staging.iterdir())
            return made

        copier.between = kept
        await copier.until(count_is(door, "S", 50))
        upstream = Upstream(target, StreamSource(name="O"), mirrored=False)
        for name, content in files.items():
            (staging / name).write_bytes(content)
        with pytest.raises(CursorMovedError):
            await receipts.take(upstream, given[0], CursorAt("id"))
        assert list(staging.iterdir()) == []
        assert len(await held(door, "S")) == 50


async def test_files_for_a_target_that_takes_nothing_any_more_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.replication.worker.result.INLINE_BYTES", 100)
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        sealed = {"name": "M", "mirror": {"name": "O"}, "sealed": True}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.M", sealed)
        await publish(door, "o", 50)
        made: list[Receipt] = []
        copier.between = lambda receipts: made.extend(receipts) or receipts  # type: ignore[func-returns-value]
        while not made:
            assert await copier.tick() == 0
        assert any(receipt.adopted or receipt.sums for receipt in made)
        assert list((door.domain.stream("M").directory / "staging").iterdir()) == []
