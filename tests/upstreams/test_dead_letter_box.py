"""Dead letters are stored once, and before the target moves past them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from control.copiers import count_is, create, held
from doors import Door
from headwater.model import headers as header_block
from headwater.replication.work import Receipt
from headwater.upstreams import receipts
from upstreams.piping import SPARK_SAYS, piping


async def publish(door: Door, *datas: str) -> None:
    for data in datas:
        await door.asker.publish("o", data.encode())


async def datas(door: Door, stream: str) -> list[str]:
    return [m.data.decode() for m in await held(door, stream)]


async def test_failed_messages_are_in_the_stream_of_dead_letters_with_the_reason(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await create(door, name="D", subjects=["d"])
        await publish(door, "one", "fail a", "2 b", "none c", "fail d", "3 e")
        await piper.declare(door, "T", select="x", dead_letters="D")
        await piper.until(count_is(door, "T", 6))
        assert await datas(door, "T") == ["one", "2 b", "2 b", "3 e", "3 e", "3 e"]
        letters = await held(door, "D")
        assert [m.data for m in letters] == [b"fail a", b"fail d"]
        assert [m.subject for m in letters] == [b"o", b"o"]
        said = [header_block.get_str(m.headers, b"Headwater-Error") for m in letters]
        assert said == [f"the SQL fails, as for another message: {SPARK_SAYS}"] * 2
        (source,) = door.upstreams.infos(door.domain.stream("T"))[1]
        assert source.progress is not None
        assert (source.progress.dead_letters, source.lag) == (2, 0)


async def test_a_range_that_is_copied_again_has_its_dead_letters_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await create(door, name="D", subjects=["d"])
        await publish(door, "one", "fail a", "2 b")
        await piper.declare(door, "T", select="x", dead_letters="D")
        take, failures = receipts.take, [OSError("the disk is full")]

        async def take_once_refused(*arguments: object) -> int:
            if failures:
                raise failures.pop()
            return await take(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(receipts, "take", take_once_refused)
        while not (await held(door, "T")):
            await piper.tick()
        await publish(door, "fail z")
        await piper.until(count_is(door, "D", 2))
        assert await datas(door, "D") == ["fail a", "fail z"]
        assert await datas(door, "T") == ["one", "2 b", "2 b"]


async def test_a_later_range_cannot_store_its_dead_letters_before_an_earlier_one(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await create(door, name="D", subjects=["d"])
        await piper.declare(door, "T", select="x", dead_letters="D")

        def outdated(given: list[Receipt]) -> list[Receipt]:
            return [msgspec.structs.replace(each, expected=b"\x92\xa1x\x09") for each in given]

        piper.between = outdated
        await publish(door, "fail a", "b")
        before = len(piper.works)
        while len(piper.works) == before:
            await piper.tick()
        assert await datas(door, "D") == []
        piper.between = lambda given: given
        await piper.until(count_is(door, "T", 1))
        assert await datas(door, "D") == ["fail a"]


async def test_without_dead_letters_the_copy_stops_before_the_failed_message(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await create(door, name="D", subjects=["d"])
        await publish(door, "one", "fail a", "two")
        await piper.declare(door, "T", select="x")
        await piper.until(count_is(door, "T", 1))
        (source,) = door.upstreams.infos(door.domain.stream("T"))[1]
        assert source.error is not None
        assert source.error.description.startswith(
            "message 2: the SQL fails; change the pipeline, or give it"
        )
        answer = await piper.declare(door, "T", update=True, select="x", dead_letters="D")
        assert "error" not in answer
        await piper.until(count_is(door, "T", 2))
        assert (await datas(door, "T"), await datas(door, "D")) == (["one", "two"], ["fail a"])


async def test_a_full_or_missing_stream_of_dead_letters_holds_the_copy_back(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await create(door, name="D", subjects=["d"], max_msgs=1, discard="new")
        await publish(door, "fail a", "fail b", "two")
        await piper.declare(door, "T", select="x", dead_letters="D")
        await piper.until(_shows(door, "dead letters: stream D"))
        assert await datas(door, "T") == []
        await door.asker.ask("STREAM.DELETE.D", None)
        door.upstreams.of("T")[0].next_try_ns = 0
        await piper.until(_shows(door, "the stream of dead letters D does not exist"))
        await create(door, name="D", subjects=["d"])
        door.upstreams.of("T")[0].next_try_ns = 0
        await piper.until(count_is(door, "T", 1))
        assert await datas(door, "D") == ["fail a", "fail b"]


def _shows(door: Door, words: str) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        error = door.upstreams.of("T")[0].error
        return error is not None and words in error.description

    return reached
