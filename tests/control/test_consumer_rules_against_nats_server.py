"""The rules for consumers give the answers of a real nats-server to the same requests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import nats
import pytest

from control.consumer_requests import HEARD, REQUESTS, Scenario, Step
from headwater.control import rules
from headwater.control.consumer_rules import check_address, check_create, parse_address
from headwater.errors import ApiError, api_error
from headwater.model.api_level import shown_metadata
from headwater.model.consumer import ConsumerConfig
from headwater.model.stream import StreamConfig
from headwater.wire.consumer_json import config_json, decode_create
from headwater.wire.stream_json import decode_config, error_json
from servers import RunningServer, nats_server

Answer = dict[str, Any]
ATTEMPTS = 50

# Where we differ on purpose, and why.
DIFFERENCES: Mapping[str, str] = {
    "create name of 256": "nats-server fails to create a directory of that name; the name is too long",
    "legacy ephemeral": "the generated name is in the config as well",
    '{"stream_name":"S","config":{"pause_until":"x"}}': "the words of Go's time parser",
    '{"stream_name":"S","config":{"pause_until":"2099-01-01T02:00:00+02:00"}}': "times are in UTC",
}


def stream_body(scenario: Scenario) -> bytes:
    """Return the request that creates the scenario's stream."""
    return json.dumps({"name": "S", **scenario.stream}).encode()


async def ask(server: RunningServer) -> dict[str, list[Answer]]:
    """Return what the server answers to each scenario, each on a new stream."""
    client = await nats.connect(server.client_url)
    await client.subscribe(HEARD)
    answers: dict[str, list[Answer]] = {}
    for title, scenario in REQUESTS.items():
        await create(client, scenario)
        answers[title] = [await send(client, step) for step in scenario.steps]
        await client.request("$JS.API.STREAM.DELETE.S", b"", timeout=60)
        await server.forgotten("S")
    await client.close()
    return answers


async def create(client: Any, scenario: Scenario) -> None:
    """Make the scenario's stream; its predecessor of the same name may be in the way for a moment."""
    answer: Answer = {}
    for _ in range(ATTEMPTS):
        reply = await client.request("$JS.API.STREAM.CREATE.S", stream_body(scenario), timeout=60)
        answer = json.loads(reply.data)
        if "error" not in answer:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(answer["error"])


async def send(client: Any, step: Step) -> Answer:
    """Return the error or the config of the answer."""
    reply = await client.request(f"$JS.API.CONSUMER.{step.subject}", step.body, timeout=60)
    answer = json.loads(reply.data)
    return answer.get("error") or comparable(answer["config"], step)


def comparable(config: Answer, step: Step) -> Answer:
    """Return the config with names that were made up by the server left out."""
    name = re.sub(r"^(JS_(?:SRC|MIRROR)_\w+)-\w{8}$", r"\1-", config.get("name", ""))
    given = name.encode() in step.body or name in step.subject or name.endswith("-")
    return config | {"name": name if given else "made up"}


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[Answer]]:
    """All answers of a real server."""

    async def run() -> dict[str, list[Answer]]:
        async with nats_server(jetstream=True) as server:
            return await ask(server)

    return asyncio.run(run())


def ours(scenario: Scenario) -> list[Answer]:
    """Return what the rules answer to the requests, one after the other."""
    stream = rules.check_create(decode_config(stream_body(scenario))[0], {})
    existing: dict[str, ConsumerConfig] = {}
    answers = []
    for step in scenario.steps:
        try:
            config = decided(step, stream, existing)
        except ApiError as error:
            answers.append(error_json(error))
            continue
        existing[config.name] = config
        shown = config_json(config)
        shown["metadata"] = shown_metadata(config.metadata, "2.15.1")
        answers.append(comparable(shown, step))
    return json.loads(json.dumps(answers))  # type: ignore[no-any-return]


def decided(step: Step, stream: StreamConfig, existing: dict[str, ConsumerConfig]) -> ConsumerConfig:
    """Return the config that one request leads to."""
    request = check_address(decode_create(step.body), parse_address(step.subject))
    if request.stream_name != stream.name:
        raise api_error("stream_not_found")
    return check_create(request, stream, existing, has_interest=lambda subject: subject == HEARD)


@pytest.mark.parametrize("title", REQUESTS)
def test_a_request_gets_the_same_answer(title: str, theirs: dict[str, list[Answer]]) -> None:
    mine, real = ours(REQUESTS[title]), theirs[title]
    if title in DIFFERENCES:
        assert mine != real, "no longer a difference"
    else:
        assert mine == real
