"""Whatever disk, power, clock and connections do, an engine keeps every promise that clients were given."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from simulation.engine import shim
from simulation.engine.loop import SimLoop
from simulation.engine.mutations import MUTATIONS
from simulation.engine.simulate import TESTS, chosen
from simulation.engine.simulate import outcomes as simulated
from simulation.engine.world import BrokenPromiseError, within

SEEDS = os.environ.get("SIM_SEED", "")
RUNS = int(os.environ.get("SIM_RUNS", "0"))
BOUNDED_S = 20.0
"""How long runs are begun for when nobody asks for a number of them."""
MUST_HAPPEN = (
    "publish stored",
    "delivered",
    "redelivered",
    "ack",
    "double ack confirmed",
    "term confirmed",
    "nak",
    "in progress",
    "ack and next",
    "ordered",
    "fold",
    "checkpoint",
    "copy done",
    "copy adopted",
    "copy linked",
    "bulk stored",
    "stan stored",
    "stan delivered",
    "stream.create",
    "stream.delete",
    "consumer.create",
    "delete",
    "read",
    "audit",
    "kill",
    "power cut",
    "op rename",
    "op link",
    "op sync_dir",
)
"""What must have happened when a few runs are over, or they show nothing."""
MUST_HAPPEN_AMONG_MANY = (
    "publish refused",
    "rollback",
    "compaction",
    "delta checkpoint",
    "ordered reset",
    "publish duplicate",
    "publish repeated",
    "publish unknown",
    "bulk duplicate",
    "bulk refused",
    "bulk part refused",
    "bulk unknown",
    "bulk aborted",
    "purge",
    "gap",
    "stop",
    "stream.update",
    "consumer.update",
    "consumer.delete",
    "clock forward",
    "clock back",
    "fault at start",
    "fault refused",
    "fault torn",
    "fault late",
    "fault full",
    "fault kill",
    "fault refused sync",
    "fault refused read",
    "chaos cut_cable",
    "chaos slow",
    "chaos kill_replicator",
)
MANY = 40
ALWAYS = ("no_file_sync", "early_confirmation", "early_release", "emptied_checkpoint")
"""The mutations that each test run tries."""
MOST_ATTEMPTS = 25


@pytest.fixture(autouse=True, scope="module")
def _needs_shim() -> None:
    """Say why there can be no simulation here; where tests are built upon, that is a failure."""
    if why := shim.why_not():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


def described(outcome: dict[str, Any]) -> str:
    """Return a readable report of a failed run."""
    history = "\n".join(outcome.get("history", []))
    repeat = f"SIM_SEED={outcome['seed']} pytest tests/simulation/test_engine.py"
    return f"{outcome['problem']}\n{repeat}\n{history}\n{outcome.get('trace', '')}"


def test_an_engine_keeps_its_promises_whatever_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [int(seed) for seed in SEEDS.split(",") if seed] or chosen(RUNS or 1000)
    outcomes = list(simulated(seeds, most_s=0.0 if SEEDS or RUNS else BOUNDED_S))
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.get("counts", {}))
    with capsys.disabled():
        print(f"\n{len(outcomes)} simulated runs, seeds {[outcome['seed'] for outcome in outcomes]}")
        print({name: count for name, count in sorted(counts.items()) if count})
    broken = [outcome for outcome in outcomes if outcome["problem"]]
    assert not broken, "\n\n".join(map(described, broken[:5])) + f"\n{len(broken)} of {len(outcomes)} runs"
    if not SEEDS:
        wanted: tuple[str, ...] = MUST_HAPPEN if len(outcomes) >= 3 else ()
        wanted += MUST_HAPPEN_AMONG_MANY if len(outcomes) >= MANY else ()
        assert not [name for name in wanted if not counts[name]], (
            "runs in which this never happens show nothing"
        )


def test_without_faults_every_client_gets_everything() -> None:
    (outcome,) = simulated(chosen(1), "--lasts", "30", "--calm")
    assert not outcome["problem"], described(outcome)


def test_a_fold_that_ends_after_the_consumers_keeps_what_they_acknowledged() -> None:
    (outcome,) = simulated(chosen(1), *MUTATIONS["emptied_checkpoint"].arguments)
    assert not outcome["problem"], described(outcome)


def changes(outcome: dict[str, Any]) -> dict[str, int]:
    """Return the counts without reads: delta-rs reads on its own threads, in any order."""
    return {name: n for name, n in outcome["counts"].items() if name not in ("op open", "op read")}


def ended_at(outcome: dict[str, Any]) -> str:
    """Return the virtual time at the end, to the nanosecond; the fingerprint has it behind the operations."""
    return str(outcome["fingerprint"]).partition("-")[2]


def unnumbered(history: list[str]) -> list[str]:
    """Return what happened, without the numbers of operations: reads of delta-rs are among those."""
    return [re.sub(r" op \d+", "", line) for line in history]


def test_a_seed_repeats_a_run() -> None:
    # Where a fault falls among operations that delta-rs does on several threads, their order is its own.
    (seed,) = chosen(1)
    first, _, second = simulated([seed, seed + 1, seed], "--lasts", "15", "--calm")
    assert ended_at(first) == ended_at(second), f"seed {seed}"
    assert unnumbered(first["history"]) == unnumbered(second["history"]), f"seed {seed}"
    assert changes(first) == changes(second), f"seed {seed}"


def test_the_order_of_a_set_does_not_depend_on_addresses() -> None:
    script = (
        "import asyncio, random\n"
        "from simulation.engine.hashes import NumberedFuture, number_objects\n"
        "from headwater.background_tasks import BackgroundTasks\n"
        "from headwater.callbacks import Callbacks\n"
        "number_objects()\n"
        "loop = asyncio.new_event_loop()\n"
        "kinds = (BackgroundTasks, Callbacks, lambda: NumberedFuture(loop=loop))\n"
        "kept, made = [], []\n"
        "for number in range(60):\n"
        "    kept.append(bytearray(random.SystemRandom().randrange(1, 4096)))\n"
        "    made.append(kinds[number % 3]())\n"
        "places = {id(one): place for place, one in enumerate(made)}\n"
        "print([places[id(one)] for one in set(made)])\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    orders = {subprocess.check_output([sys.executable, "-c", script], env=env) for _ in range(2)}
    assert len(orders) == 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_simulator_finds_what_is_broken_on_purpose(name: str) -> None:
    if name not in ALWAYS and not RUNS:
        pytest.skip("make test-simulation tries every mutation, make test a few")
    problems = []
    for outcome in simulated(chosen(MOST_ATTEMPTS), "--mutation", name, *MUTATIONS[name].arguments):
        problems.append(outcome["problem"])
        if re.search(MUTATIONS[name].found, outcome["problem"]) and outcome["problem"]:
            return
    pytest.fail(f"{MOST_ATTEMPTS} runs did not find it: {problems}")


def test_a_wait_that_does_not_end_is_a_broken_promise_with_a_name() -> None:
    async def wait() -> None:
        await within(asyncio.Event().wait(), 300, "a stop of the engine")

    loop = SimLoop(1)
    try:
        with pytest.raises(BrokenPromiseError, match=r"a stop of the engine stalled for 300 s"):
            loop.run_until_complete(wait())
        assert loop.time() >= 300, "virtual time, which no busy machine lets pass"
    finally:
        loop.close()
