"""As long as there are no consumers, their endpoints say so as nats-server would."""

from __future__ import annotations

from typing import Any

import pytest

from doors import Asker

S = {"name": "S", "subjects": ["s.>"]}


@pytest.mark.parametrize("stream", ["S", "X"])
@pytest.mark.parametrize("verb", ["NAMES", "LIST"])
async def test_there_are_none_to_list(twins: Any, stream: str, verb: str) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for body in (None, {"offset": 3}, "xx", "{x"):
        await twins.ask(f"CONSUMER.{verb}.{stream}", body)


@pytest.mark.parametrize("stream", ["S", "X"])
@pytest.mark.parametrize("verb", ["INFO", "DELETE", "PAUSE"])
async def test_a_request_about_one_is_refused_as_by_nats_server(twins: Any, stream: str, verb: str) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask(f"CONSUMER.{verb}.{stream}.c")
    if verb != "PAUSE":
        await twins.ask(f"CONSUMER.{verb}.{stream}.c", "x")


@pytest.mark.parametrize("subject", ["CREATE.S", "CREATE.S.c", "CREATE.S.c.filter.>", "DURABLE.CREATE.S.c"])
async def test_none_can_be_created_and_the_answer_says_why(ask: Asker, subject: str) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    answer = await ask.ask(f"CONSUMER.{subject}", {"stream_name": "S", "config": {}})
    assert answer["error"]["err_code"] == 10012
    assert "serves no consumers yet" in answer["error"]["description"]
    missing = await ask.ask(f"CONSUMER.{subject.replace('.S', '.X', 1)}", {"stream_name": "X"})
    assert missing["error"]["err_code"] == 10059
