"""Transforms and filters give what a real nats-server gives for the same patterns and subjects."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import nats
import pytest

from headwater.model.subject import Filter
from headwater.model.transform import SubjectTransform, TransformError, check_mapping
from servers import nats_server

TRANSFORMS = 260
SUBJECTS = ("t.a", "t.abcde", "t.a-b--c-", "t.--a", "t.foo.bar", "t.ab.cde.f", "t.x.y.z.w", "t.é.b")
SOURCES = ("t.a", "t.*", "t.*.*", "t.*.*.*", "t.>", "t.*.>", "*.*", "*.*.>", ">", "", "t.foo.bar", "u.*")
PIECES = (
    "x",
    "$1",
    "$2",
    "$0",
    "$x",
    "{{wildcard(1)}}",
    "{{Wildcard( 2 )}}",
    "{{wildcard()}}",
    "{{wildcard(1,2)}}",
    "{{WILDCARD(1)}}",
    "{{wildcard(-1)}}",
    "{{partition(7)}}",
    "{{partition(7,1)}}",
    "{{Partition(100,1,2)}}",
    "{{partition(0,1)}}",
    "{{partition(-3,1)}}",
    "{{partition(x)}}",
    "{{partition(2147483648)}}",
    "{{split(1,-)}}",
    "{{split(2,b)}}",
    "{{split(1,)}}",
    "{{split(1)}}",
    "{{split(1,a,b)}}",
    "{{splitfromleft(1,2)}}",
    "{{SplitFromRight(1,2)}}",
    "{{splitFromLeft(2,0)}}",
    "{{slicefromleft(1,2)}}",
    "{{sliceFromRight(1,2)}}",
    "{{slicefromleft(2,1)}}",
    "{{slicefromleft(1,x)}}",
    "{{left(1,2)}}",
    "{{Right(1,2)}}",
    "{{left(1,-1)}}",
    "{{random(1)}}",
    "{{random(0)}}",
    "{{random()}}",
    "{{random(1,2)}}",
    "{{nope(1)}}",
    "{{}}",
    "{{x}}",
)
FUNCTIONS = (
    "wildcard",
    "partition",
    "split",
    "splitFromLeft",
    "splitfromright",
    "SliceFromLeft",
    "slicefromright",
    "left",
    "right",
)
ARGUMENTS = ("1", "2", "3", "4", "0", "-1", "-", "b", " 2", "1 ", "+1", "01", "", "99999999999", "é")
TOKENS = ("a", "b", "cd", "*")


def call(dice: random.Random) -> str:
    """Return a function with any arguments, mostly ones that it could take."""
    name = dice.choice(FUNCTIONS)
    usual = 1 if name == "wildcard" else 2
    count = usual if dice.random() < 0.8 else dice.randint(0, 3)
    given = [dice.choice(ARGUMENTS[:3] if dice.random() < 0.7 else ARGUMENTS) for _ in range(count)]
    if name == "split" and count == 2 and dice.random() < 0.7:
        given[1] = dice.choice(("-", "b", "--", "c"))
    return "{{" + name + "(" + ",".join(given) + ")}}"


def transforms() -> list[tuple[str, str]]:
    """Return pairs of source and destination: each piece alone with each likely source, then mixtures."""
    dice = random.Random(20)
    pairs = [("t.*.*", f"n.{piece}") for piece in PIECES] + [("t.*", f"n.{piece}.m") for piece in PIECES]
    while len(pairs) < TRANSFORMS:
        src = dice.choice(SOURCES)
        parts = [
            call(dice) if dice.random() < 0.6 else dice.choice(PIECES) for _ in range(dice.randint(1, 3))
        ]
        if src.endswith(">") or not src or dice.random() < 0.1:
            parts.append(">")
        pairs.append((src, ".".join(parts)))
    return list(dict.fromkeys(pairs))


def patterns() -> list[str]:
    """Return patterns below `f.`, literals among them."""
    dice = random.Random(21)
    made = [".".join(["f", *dice.choices(TOKENS, k=dice.randint(1, 4))]) for _ in range(60)]
    return sorted({p + tail for p in made for tail in ("", ".>")} | {"f.>", ">", "*.>", "*.*"})


async def their_transform(client: Any, src: str, dest: str) -> dict[str, str | None] | str:
    """Return the stored subject of each published one, or the error."""
    config = {
        "name": "T",
        "subjects": ["t.>"],
        "storage": "memory",
        "subject_transform": {"src": src, "dest": dest},
    }
    created = json.loads(
        (await client.request("$JS.API.STREAM.CREATE.T", json.dumps(config).encode(), timeout=60)).data
    )
    if "error" in created:
        return str(created["error"]["description"])
    stored: dict[str, str | None] = {}
    for seq, subject in enumerate(SUBJECTS, start=1):
        await client.request(subject, b"", timeout=60)
        got = await client.request("$JS.API.STREAM.MSG.GET.T", json.dumps({"seq": seq}).encode(), timeout=60)
        stored[subject] = json.loads(got.data)["message"]["subject"]
    await client.request("$JS.API.STREAM.DELETE.T", b"", timeout=60)
    return stored


def our_transform(src: str, dest: str) -> dict[str, str | None] | str:
    """Return the same of our own code; a subject that is not taken stays as it is."""
    try:
        check_mapping(src, dest)
    except TransformError as error:
        return f"stream transform: {error}"
    transform = SubjectTransform(src, dest)
    # A cut may go through a character; the server shows what is left of it as JSON can.
    return {s: (transform.apply(s.encode()) or s.encode()).decode(errors="replace") for s in SUBJECTS}


async def their_matches(client: Any, filters: list[str]) -> dict[str, set[str]]:
    """Return the subjects of one stream that the server finds for each filter."""
    config = {"name": "F", "subjects": ["f.>"], "storage": "memory"}
    await client.request("$JS.API.STREAM.CREATE.F", json.dumps(config).encode(), timeout=60)
    for subject in UNIVERSE:
        await client.request(subject, b"", timeout=60)
    found = {}
    for pattern in filters:
        body = json.dumps({"subjects_filter": pattern}).encode()
        info = json.loads((await client.request("$JS.API.STREAM.INFO.F", body, timeout=60)).data)
        found[pattern] = set(info["state"].get("subjects") or {})
    return found


UNIVERSE = sorted(
    {".".join(["f", *random.Random(n).choices(("a", "b", "cd", "e"), k=1 + n % 4)]) for n in range(120)}
)


@pytest.fixture(scope="module")
def theirs() -> tuple[dict[tuple[str, str], Any], dict[str, set[str]]]:
    """What a real server makes of all transforms and filters."""

    async def run() -> tuple[dict[tuple[str, str], Any], dict[str, set[str]]]:
        async with nats_server(jetstream=True) as server:
            client = await nats.connect(server.client_url)
            made = {pair: await their_transform(client, *pair) for pair in transforms()}
            found = await their_matches(client, patterns())
            await client.close()
            return made, found

    return asyncio.run(run())


@pytest.mark.parametrize("pair", transforms(), ids=lambda pair: f"{pair[0]} to {pair[1]}")
def test_a_transform_stores_the_same_subjects(pair: tuple[str, str], theirs: tuple[Any, Any]) -> None:
    assert our_transform(*pair) == theirs[0][pair]


@pytest.mark.parametrize("pattern", patterns())
def test_a_filter_takes_the_same_subjects(pattern: str, theirs: tuple[Any, Any]) -> None:
    filter = Filter(pattern)
    assert {s for s in UNIVERSE if filter.matches(s.encode())} == theirs[1][pattern]
