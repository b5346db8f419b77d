"""Engines, servers and the replicator killed again and again: every message is in every target once.

`TEST_ROUNDS` says how often something is killed; `make test-rounds` does it oftener than `make test`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from durability.fleet import ORIGINS, UPSTREAMS, Copied, Fleet, Held, fleet
from java import require_java
from rounds import choose_seed, rounds
from waits import until

ROUNDS = rounds(6)
SEED = choose_seed()
# A replicator takes seconds to come back, so it is not killed as often as the others.
VICTIMS = ("lake", "hub", "lake", "far", "edge", "lake", "hub", "replicator")


@dataclass
class Voyage:
    """What all streams hold after the last kill."""

    killed: Counter[str] = field(default_factory=Counter)
    sent: dict[str, int] = field(default_factory=dict)
    origins: dict[str, list[Held]] = field(default_factory=dict)
    targets: dict[str, list[Held]] = field(default_factory=dict)
    linked: dict[str, set[str]] = field(default_factory=dict)
    """Files of origins of origins that targets have taken as they are."""
    log: str = ""


async def one_round(running: Fleet, victim: str, chance: Random) -> None:
    """Publish everywhere, kill one part at some moment, start it again, and see that copying continues."""
    before = (await running.ask("lake", "STREAM.INFO.ARCHIVE"))["state"]["last_seq"]
    # Sometimes a few messages that go through the log, sometimes so many that files are staged and adopted,
    # and that remote origins are read by a consumer.
    count, size = chance.choice([(20, 100), (150, 1_000), (300, 3_000), (2_500, 300)])
    publishing = asyncio.create_task(running.publish(count, size))
    await asyncio.sleep(chance.uniform(0.0, 1.2))
    if victim == "replicator":
        running.replicator.kill()
        # What is published while no replicator runs is in files by the time one runs.
        for _ in range(3):
            await running.publish(1_000, 2_000)
            await running.acknowledged()
        running.replicator.start()
    else:
        part = getattr(running, victim)
        await part.kill()
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.5]))
        await part.start()
    await publishing

    async def goes_on() -> bool:
        await running.publish(1, 10)
        return bool((await running.ask("lake", "STREAM.INFO.ARCHIVE"))["state"]["last_seq"] > before)

    await until(goes_on, f"copying continues after {victim} was killed", running.tell, 120)


def linked_in(table: Path) -> set[str]:
    """Return the files of a source's origin that a table was given by commits that are still there."""
    found: set[str] = set()
    for commit in (table / "_delta_log").glob("*.json"):
        with suppress(FileNotFoundError):
            actions = [json.loads(line) for line in commit.read_text().splitlines()]
            adds = [action["add"] for action in actions if "add" in action]
            found.update(add["path"] for add in adds if add["partitionValues"]["source"])
    return found


async def sail(directory: Path) -> Voyage:
    """Kill parts of a fleet again and again, then wait until all is copied."""
    chance, voyage = Random(SEED), Voyage()
    async with fleet(directory) as running:
        for number in range(ROUNDS):
            # Every kind in turn, so that few rounds have them all, but for the last ones at random.
            victim = VICTIMS[-1 - number] if number < len(VICTIMS) else chance.choice(VICTIMS)
            await one_round(running, victim, chance)
            voyage.killed[victim] += 1
            for target in ("ARCHIVE", "REPORT"):
                table = running.lake.store / "$G" / target / "table"
                voyage.linked[target] = voyage.linked.get(target, set()) | linked_in(table)
        await running.acknowledged()
        await running.caught_up()
        for name, site in ORIGINS.items():
            voyage.sent[name] = running.publishers[name].sent
            voyage.origins[name] = await running.held(site, name)
        for target in {upstream.target for upstream in UPSTREAMS}:
            voyage.targets[target] = await running.held("lake", target)
    voyage.log = running.lake.log + running.far.log
    return voyage


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Voyage:
    require_java()
    return asyncio.run(sail(tmp_path_factory.mktemp("voyage")))


def origin_of(voyage: Voyage, upstream: Copied) -> list[Held]:
    """Return what an upstream should have brought, as its origin holds it."""
    held = voyage.origins.get(upstream.origin) or voyage.targets[upstream.origin]
    return [one for one in held if upstream.wanted in ("", one.subject)]


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_origin_holds_every_message_once(voyage: Voyage, origin: str) -> None:
    numbers = [int(held.data.split()[0]) for held in voyage.origins[origin]]
    assert sorted(numbers) == list(range(voyage.sent[origin]))


@pytest.mark.parametrize("upstream", [u for u in UPSTREAMS if u.mirrored], ids=lambda u: u.target)
def test_a_mirror_is_its_origin_message_by_message(voyage: Voyage, upstream: Copied) -> None:
    assert voyage.targets[upstream.target] == origin_of(voyage, upstream)


@pytest.mark.parametrize(
    "upstream", [u for u in UPSTREAMS if not u.mirrored], ids=lambda u: f"{u.target} from {u.origin}"
)
def test_a_source_brings_every_message_once_and_in_its_order(voyage: Voyage, upstream: Copied) -> None:
    arrived = [one for one in voyage.targets[upstream.target] if one.subject.startswith(upstream.origin)]
    expected = origin_of(voyage, upstream)
    assert [(one.subject, one.data) for one in arrived] == [(one.subject, one.data) for one in expected]
    named = [one.headers["Nats-Stream-Source"].split() for one in arrived]
    # The sequence at the origin is the second word of what a sourced message says of where it came from.
    assert [int(words[1]) for words in named] == [one.seq for one in expected]


def test_every_part_was_killed_and_none_met_anything_unforeseen(voyage: Voyage) -> None:
    assert voyage.killed.total() == ROUNDS
    assert set(voyage.killed) >= set(VICTIMS[-ROUNDS:])
    assert "Traceback" not in voyage.log


def test_files_were_linked_on_the_way(voyage: Voyage) -> None:
    assert voyage.linked["ARCHIVE"]
