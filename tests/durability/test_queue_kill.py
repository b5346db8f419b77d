"""Work queues and interest streams copied while everything is killed: each message once, none left behind.

`TEST_ROUNDS` says how often something is killed; `make test-rounds` kills more often than `make test`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from durability.fleet import ORIGINS, SUBJECTS, UPSTREAMS, Copied, Fleet, fleet
from durability.test_replication_kill import VICTIMS, one_round
from rounds import choose_seed, rounds
from waits import until

RETENTIONS = {"LOCAL": "workqueue", "FAR": "interest", "EDGE": "workqueue"}
ROUNDS = rounds(4)
SEED = choose_seed()


async def test_every_message_leaves_its_queue_and_is_in_every_target_once(tmp_path: Path) -> None:
    chance = Random(SEED)
    async with fleet(tmp_path, RETENTIONS) as running:
        await running.held_for("far", "FAR")
        for number in range(ROUNDS):
            victim = VICTIMS[-1 - number] if number < len(VICTIMS) else chance.choice(VICTIMS)
            await one_round(running, victim, chance)
        await running.acknowledged()
        await running.caught_up()
        for name, site in ORIGINS.items():
            await emptied(running, site, name)
        for upstream in UPSTREAMS:
            if upstream.origin in ORIGINS:
                await audit(running, upstream)
    assert "Traceback" not in running.lake.log + running.far.log


async def emptied(running: Fleet, site: str, origin: str) -> None:
    async def empty() -> bool:
        return bool((await running.ask(site, f"STREAM.INFO.{origin}"))["state"]["messages"] == 0)

    await until(empty, f"{origin} is empty", running.tell, 120)


async def audit(running: Fleet, upstream: Copied) -> None:
    """Compare what an upstream has brought with what was published."""
    held = [
        one for one in await running.held("lake", upstream.target) if one.subject.startswith(upstream.origin)
    ]
    sent = range(running.publishers[upstream.origin].sent)
    wanted = [n for n in sent if upstream.wanted in ("", f"{upstream.origin}.{n % SUBJECTS}")]
    assert sorted(int(one.data.split()[0]) for one in held) == wanted
    if upstream.mirrored:
        seqs = [one.seq for one in held]
    else:
        seqs = [int(one.headers["Nats-Stream-Source"].split()[1]) for one in held]
    assert seqs == sorted(set(seqs))
