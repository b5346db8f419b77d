"""Generated sources and mirrors are accepted or refused as by a real nats-server."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import nats
import pytest

from control.stream_requests import Step, create, source, transform, update
from control.test_rules_against_nats_server import Answer, ours, send
from servers import nats_server

CASES = 220
SUBJECTS = (
    "o.a",
    "o.b",
    "o.*",
    "o.>",
    "o.*.c",
    "o.b.c",
    ">",
    "*.b",
    "p",
    "o.b.>",
    "",
    "o..b",
    "o.>.b",
    "o b",
)
DESTINATIONS = (
    "",
    "",
    "x",
    "x.$1",
    "x.{{wildcard(1)}}.{{partition(3,1)}}",
    "x.>",
    "x.$3",
    "{{nope(1)}}",
    "a..b",
)
STREAMS = ("O", "P", "Q", "S")


def upstream(dice: random.Random) -> dict[str, Any]:
    """Return a source or mirror with any filter, transforms and start."""
    fields: dict[str, Any] = {}
    if dice.random() < 0.35:
        fields["filter_subject"] = dice.choice(SUBJECTS)
    if dice.random() < 0.45:
        count = dice.choice((1, 1, 2, 2, 3))
        fields["subject_transforms"] = [
            transform(
                dice.choice(SUBJECTS[:10] if dice.random() < 0.9 else SUBJECTS), dice.choice(DESTINATIONS)
            )
            for _ in range(count)
        ]
    if dice.random() < 0.2:
        fields["opt_start_seq"] = dice.choice((0, 1, 7))
    if dice.random() < 0.1:
        fields["opt_start_time"] = "2024-01-01T00:00:00Z"
    if dice.random() < 0.1:
        fields["external"] = {
            "api": dice.choice(("$JS.d.API", "$JS.API", "x.>", "")),
            "deliver": dice.choice(("", "o", "d.*")),
        }
    return source(dice.choice(STREAMS), **fields)


def fed(dice: random.Random, name: str) -> dict[str, Any]:
    """Return a stream that is fed by others, mostly by sources."""
    config: dict[str, Any] = {"name": name}
    if dice.random() < 0.5:
        config["subjects"] = [dice.choice((f"{name.lower()}.>", "o.b", "x"))]
    if dice.random() < 0.25:
        config["mirror"] = upstream(dice)
    if "mirror" not in config or dice.random() < 0.1:
        config["sources"] = [upstream(dice) for _ in range(dice.choice((1, 1, 2, 3)))]
    if dice.random() < 0.1:
        config["first_seq"] = 5
    return config


def cases() -> dict[str, list[Step]]:
    """Return so many short stories: an origin, streams that are fed, and sometimes a change of one."""
    made: dict[str, list[Step]] = {}
    for seed in range(CASES):
        dice = random.Random(seed)
        steps = [create(name="O", subjects=["o.>"])] if dice.random() < 0.6 else []
        steps += [create(**fed(dice, name)) for name in dice.sample(("P", "Q", "S"), dice.choice((1, 2)))]
        if dice.random() < 0.4:
            steps.append(update(**fed(dice, steps[-1].name)))
        made[str(seed)] = steps
    return made


REQUESTS = cases()


async def alone(steps: list[Step]) -> list[Answer]:
    """Return the answers of a real server that has seen nothing else."""
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        answers = [await send(client, step) for step in steps]
        await client.close()
    return answers


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[Answer]]:
    """All answers of a real server, each story from an empty account."""

    async def run() -> dict[str, list[Answer]]:
        answers: dict[str, list[Answer]] = {}
        async with nats_server(jetstream=True) as server:
            client = await nats.connect(server.client_url)
            for title, steps in REQUESTS.items():
                answers[title] = [await send(client, step) for step in steps]
                listed = await client.request("$JS.API.STREAM.NAMES", b"", timeout=60)
                for name in json.loads(listed.data).get("streams") or []:
                    await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=60)
                    await server.forgotten(name)
            await client.close()
        return answers

    return asyncio.run(run())


@pytest.mark.parametrize("title", REQUESTS)
def test_a_story_gets_the_same_answers(title: str, theirs: dict[str, list[Answer]]) -> None:
    answers = ours(REQUESTS[title])
    if answers != theirs[title]:
        # A busy server may still be forgetting the streams of the story before.
        assert answers == asyncio.run(alone(REQUESTS[title]))


def test_the_stories_are_neither_all_taken_nor_all_refused(theirs: dict[str, list[Answer]]) -> None:
    codes = {answer.get("err_code") for answers in theirs.values() for answer in answers}
    assert len(codes) > 8
    assert None in codes
