"""A flipped bit anywhere in a store is reported or has no effect, and a repair restores the rest.

No message is lost without a report, no wrong one is served, and no healthy file is deleted.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from headwater.control.catalog_file import CatalogError
from headwater.control.domain import Domain
from headwater.errors import CorruptionError
from headwater.model.message import Message
from rounds import choose_seed
from store import stores

ROUNDS = int(os.environ.get("TEST_FLIPS", "3"))
VERSION = range(60, 64)
"""Where sqlite has the version of the schema."""
KINDS = {
    "data": "$G/ORDERS/table/base_seq=*/**/*.parquet",
    "commit": "$G/ORDERS/table/_delta_log/*.json",
    "identity": "$G/ORDERS/identity.json",
    "declared": "$G/ORDERS/declared.json",
    "consumer": "$G/ORDERS/consumers/*.json",
    "checkpoint": "$G/ORDERS/checkpoint",
    "log": "$G/ORDERS/log/*.log",
    "newest": "$G/ORDERS/log.newest",
    "catalog": "catalog.db",
    "stan": "stan.$G.db",
}


def positions(chance: random.Random, size: int) -> list[int]:
    """Return places in the head, the middle and the tail of a file."""
    edge = min(64, size)
    return [chance.randrange(edge), chance.randrange(size), size - 1 - chance.randrange(edge)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_flipped_bit_is_reported_or_has_no_effect(tmp_path: Path, kind: str) -> None:
    seed = choose_seed()
    chance = random.Random(seed)
    whole = tmp_path / "whole"
    whole.mkdir()
    held = await stores.make(whole)
    for number in range(ROUNDS):
        store = tmp_path / str(number)
        shutil.copytree(whole, store)
        path = chance.choice(sorted(store.glob(KINDS[kind])))
        at = chance.choice(positions(chance, path.stat().st_size))
        if path.suffix == ".db" and at in VERSION:
            at = 0  # a file of a newer release is refused, and never repaired
        stores.flip(path, at, chance.randrange(8))
        where = (seed, path.relative_to(store), at)
        files = set(stores.data_files(store))
        found = {str(each.kind) for each in stores.checked(store).findings}
        reported = await served(store, held)
        assert found or not reported, where
        assert files <= set(stores.data_files(store)), where
        await repaired_and_served(store, held, where)


async def served(store: Path, held: stores.Held) -> bool:
    """Return whether anything was reported; whatever is served must be right."""
    reported = False

    async def look(domain: Domain) -> None:
        nonlocal reported
        reported |= bool(domain.offline)
        assert set(domain.names()) == {*stores.NAMES, "MEM"}
        for name in stores.NAMES:
            stream = domain.find(name)
            if stream is None:
                continue
            await stream.folder.tidy()
            state = await stream.reading.state()
            lost = set(state.lost.msgs) if state.lost else set()
            reported |= bool(lost)
            assert state.last_seq >= max(held[name]), "no sequence is used again"
            for seq, message in held[name].items():
                got: Message | None = message
                try:
                    got = await stream.reading.message(seq)
                except CorruptionError:
                    reported = True
                assert got == message or (got is None and seq in lost), (name, seq)

    try:
        await stores.on(store, look)
    except CatalogError:
        return True
    return reported


async def repaired_and_served(store: Path, held: stores.Held, where: object) -> None:
    done = await asyncio.to_thread(stores.repaired, store)
    assert [str(found) for found in done.left] == [], where

    async def look(domain: Domain) -> None:
        assert dict(domain.offline) == {}, where
        for name in stores.NAMES:
            stream = domain.stream(name)
            lost = (await stream.reading.state()).lost
            gone = set(lost.msgs) if lost else set()
            found = await stores.everything(stream)
            # A damaged checkpoint forgets which messages were removed and not erased yet.
            assert {s: m for s, m in found.items() if s != 5} == {
                s: m for s, m in held[name].items() if s not in gone
            }, where

    await stores.on(store, look)
