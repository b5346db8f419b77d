"""An engine among hostile clients: it neither ends nor stalls, and touches nothing but its store.

`make test` sends some thousands of attacks, `make test-rounds` 100,000 (`TEST_ATTACKS`). The seed is printed;
`TEST_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from pathlib import Path

import pytest

from doors import Asker
from engines import RunningEngine, engine
from fuzz.attacks import CLUSTER, CONSUMERS, STREAMS, Attack, Attacks
from fuzz.bystander import Bystander
from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.control.catalog import Catalog
from headwater.errors import BusError
from headwater.replication import handover
from rounds import SEED_VARIABLE, choose_seed

ATTACKS = int(os.environ.get("TEST_ATTACKS") or 3000)
BATCH = 40
NOBODY = b"_INBOX.f.nobody.%d"
LIMIT_S = 1800.0
"""A run that takes longer has stalled."""


def listing(root: Path, without: Path) -> dict[str, str]:
    """Return every file below a folder with what it holds, but for one folder in it."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        # The engine changes its store meanwhile: a folder that it removes must not be walked into.
        folders[:] = [name for name in folders if Path(folder, name) != without]
        found |= {str(Path(folder, name)): "directory" for name in folders}
        for path in (Path(folder, name) for name in files if name != "engine.log"):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


async def connected(url: str, **options: str) -> Connection:
    connection = Connection(ConnectOptions((url,), inbox_prefix="_INBOX.f", **options))  # type: ignore[arg-type]
    await connection.connect()
    return connection


def internal(running: RunningEngine) -> ConnectOptions:
    """Return how a replicator connects, which alone may publish receipts."""
    return handover.connect_options(str(running.store / handover.NAME), "$G", "fuzz")


async def furnish(asker: Asker) -> None:
    """Make streams and consumers to attack, and one that is left alone."""
    await asker.ask("STREAM.CREATE.QUIET", {"name": "QUIET", "subjects": ["quiet.corner"], "max_msgs": 100})
    await asker.ask("STREAM.CREATE.S0", {"name": "S0", "subjects": ["s.*", "S0.>"], "allow_direct": True})
    await asker.ask("STREAM.CREATE.S1", {"name": "S1", "subjects": ["S1.>"], "retention": "workqueue"})
    await asker.ask("STREAM.CREATE.S2", {"name": "S2", "sources": [{"name": "S0"}]})
    await asker.ask("STREAM.CREATE.M0", {"name": "M0", "subjects": ["M0.>"], "storage": "memory"})
    bucket = {"name": "KV_b", "subjects": ["$KV.b.>"], "max_msgs_per_subject": 3, "allow_rollup_hdrs": True}
    await asker.ask("STREAM.CREATE.KV_b", {**bucket, "allow_direct": True, "allow_msg_ttl": True})
    for stream in STREAMS:
        for name in CONSUMERS:
            config = {"durable_name": name, "ack_policy": "explicit"}
            await asker.ask(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})


def send(connection: Connection, attack: Attack, number: int) -> None:
    reply = (b"", b"$HEADWATER.x.REPLICATION.COMMIT")[number % 2] if number % 5 == 0 else NOBODY % number
    try:
        connection.publish(attack.subject, attack.body, reply, attack.headers)
    except BusError:
        return  # more than the server takes


@pytest.mark.timeout(LIMIT_S)
async def test_no_attack_ends_or_stalls_the_engine_or_touches_anything_outside(tmp_path: Path) -> None:
    seed = choose_seed()
    print(f"{ATTACKS} attacks; to repeat: {SEED_VARIABLE}={seed} TEST_ATTACKS={ATTACKS}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    options = (
        "--replicator",
        "submitted",
        "--stan",
        CLUSTER,
        "--memory-dir",
        str(tmp_path / "e" / "store" / "m"),
    )
    async with engine(tmp_path / "e", *options) as running:
        catalog = Catalog(running.store / "catalog.db")
        attacks = Attacks(seed, catalog.store_id, str(outside / "kept"))
        catalog.close()
        stranger, victim = await connected(running.client_url), await connected(running.client_url)
        insider = Connection(internal(running))
        await insider.connect()
        await furnish(Asker(victim))
        before = listing(tmp_path, running.store)
        bystander = Bystander(victim, running.pid)
        bystander.start()
        sent = Counter[str]()
        for number in range(ATTACKS):
            attack = attacks.next()
            sent[attack.kind] += 1
            send(insider if attack.internal else stranger, attack, number)
            if number % BATCH == 0:
                await stranger.flush(60)
                await insider.flush(60)
                await Asker(stranger).ask("INFO")  # so that attacks do not queue up for a minute
        await Asker(stranger).ask("INFO")
        await bystander.stop()
        kept = await Asker(victim).publish("quiet.corner", b"still here")
        waits = f"{bystander.asked} answers to a bystander, longest {bystander.longest_s:.2f} s"
        print(f"sent {dict(sent)}; {waits}")
        for connection in (stranger, victim, insider):
            await connection.close()
        assert "seq" in kept
        assert not bystander.is_stalled, f"the loop was held for {bystander.longest_held_s:.1f} s"
        assert listing(tmp_path, running.store) == before
        assert (outside / "kept").read_bytes() == b"kept"
        assert "Traceback" not in running.log, running.log[running.log.index("Traceback") - 500 :][:4000]
        assert "lost the connection" not in running.log
        await asyncio.wait_for(running.stop(), 120)
