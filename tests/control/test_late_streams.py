"""Many streams are asked at once, and one that does not answer is not waited for, nor asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.control import late_streams as module
from headwater.control.late_streams import LateStreams
from headwater.errors import Error
from headwater.stream.stream import Stream
from stream.streams import Workshop, config_of
from waits import until


async def test_answers_failures_and_silence_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.05)
    workshop = Workshop(tmp_path)
    streams = [await workshop.open(config_of(name=name)) for name in ("FAILS", "GIVES", "HANGS")]
    late, go_on = LateStreams(), asyncio.Event()
    asked: list[str] = []

    async def question(stream: Stream) -> str:
        asked.append(stream.name)
        if stream.name == "HANGS":
            await go_on.wait()
        if stream.name == "FAILS":
            raise Error("the disk is gone")
        return f"{stream.name} answers"

    for _ in range(3):
        answers = await late.ask(streams, question)
        assert answers.given == {"GIVES": "GIVES answers"}
        assert answers.failed == {"FAILS": "the disk is gone"}
        assert answers.missing == ["HANGS"]
    assert asked.count("HANGS") == 1, "it owes an answer"
    go_on.set()
    await asyncio.sleep(0.01)
    assert set((await late.ask(streams, question)).given) == {"GIVES", "HANGS"}
    go_on.clear()
    await late.ask(streams, question)
    await late.close()
    assert not late._owed
    for stream in streams:
        await stream.close()
    workshop.close()


async def test_a_stream_that_two_callers_asked_at_once_owes_both_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.05)
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        late, go_on = LateStreams(), asyncio.Event()

        async def question(stream: Stream) -> str:
            await go_on.wait()
            raise Error("the disk is gone")

        both = await asyncio.gather(late.ask([stream], question), late.ask([stream], question))
        assert [answers.missing for answers in both] == [[stream.name]] * 2
        go_on.set()
        await until(lambda: not late._owed)
        await late.close()
    assert unhandled == []


async def test_a_bug_is_raised(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:

        async def question(stream: Stream) -> str:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await LateStreams().ask([stream], question)
    workshop.close()
