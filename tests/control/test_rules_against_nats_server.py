"""The rules give the answers of a real nats-server to the same requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import nats
import pytest

from control.stream_requests import REQUESTS, Step
from headwater.control import rules
from headwater.errors import ApiError
from headwater.model.api_level import shown_metadata
from headwater.model.stream import StreamConfig
from headwater.wire.stream_json import config_json, decode_config, error_json
from servers import RunningServer, nats_server

Answer = dict[str, Any]

# Where we differ on purpose, and why.
DIFFERENCES: Mapping[str, str] = {
    "update source filter invalid": "a filter that can never match is refused on update as on create",
    "republish on without anything": "nats-server takes it for `>` to `>`, which feeds the stream itself",
    '{"name":"S","mirror":{"name":"X","opt_start_time":"x"}}': "the words of Go's time parser",
    '{"name":"S","mirror":{"name":"X","opt_start_time":"2024-01-01T00:00:00+02:00"}}': "times are in UTC",
}


async def ask(server: RunningServer) -> dict[str, list[Answer]]:
    """Return what the server answers to each request, each from an empty account."""
    client = await nats.connect(server.client_url)
    answers: dict[str, list[Answer]] = {}
    for title, steps in REQUESTS.items():
        answers[title] = [await send(client, step) for step in steps]
        listed = await client.request("$JS.API.STREAM.NAMES", b"", timeout=60)
        for name in json.loads(listed.data).get("streams") or []:
            await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=60)
            await server.forgotten(name)
    await client.close()
    return answers


async def send(client: Any, step: Step) -> Answer:
    """Return the error or the config of the answer."""
    reply = await client.request(f"$JS.API.STREAM.{step.verb}.{step.name}", step.body, timeout=60)
    answer = json.loads(reply.data)
    shown: Answer = answer.get("error") or answer["config"]
    return shown


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[Answer]]:
    """All answers of a real server."""

    async def run() -> dict[str, list[Answer]]:
        async with nats_server(jetstream=True) as server:
            return await ask(server)

    return asyncio.run(run())


def ours(steps: list[Step]) -> list[Answer]:
    """Return what the rules answer to the requests, one after the other."""
    existing: dict[str, StreamConfig] = {}
    answers = []
    for step in steps:
        try:
            config, pedantic = decode_config(step.body)
            check = rules.check_create if step.verb == "CREATE" else rules.check_update
            config = check(config, existing, name=step.name, pedantic=pedantic)
        except ApiError as error:
            answers.append(error_json(error))
            continue
        existing[config.name] = config
        shown = config_json(config)
        answers.append(shown | {"metadata": shown_metadata(config.metadata, "2.15.1")})
    return json.loads(json.dumps(answers))  # type: ignore[no-any-return]


@pytest.mark.parametrize("title", REQUESTS)
def test_a_request_gets_the_same_answer(title: str, theirs: dict[str, list[Answer]]) -> None:
    mine, real = ours(REQUESTS[title]), theirs[title]
    if title in DIFFERENCES:
        assert mine != real, "no longer a difference"
    else:
        assert mine == real
