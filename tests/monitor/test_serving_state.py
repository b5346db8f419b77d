"""Tests of monitor.serving_state."""

from __future__ import annotations

from pathlib import Path

from doors import Wanted, opened_door
from headwater.clock import SystemClock
from headwater.monitor.open_parts import OpenParts
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import EnginePhase, ServingState
from simulation.disks import BreakableDisk, Fault
from waits import until


def problems(status: ServingState) -> dict[str, str]:
    return {check.name: check.problem for check in status.checks() if check.problem}


def test_an_engine_is_ready_only_once_it_serves() -> None:
    status = ServingState()
    assert problems(status) == {"engine": "0 of 1 accounts are served"}
    status.waits("4711")
    assert problems(status) == {"engine": "this engine is a standby; the engine 4711 serves the store"}
    status.starts()
    assert status.phase is EnginePhase.STARTING
    assert not status.is_ready


async def test_what_is_wrong_is_named_and_readiness_returns_when_it_heals(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    async with opened_door(tmp_path, Wanted(disk=disk)) as door:
        account = ServedAccount("$G", "", "probe", door.domain, door.consumers, door.upstreams, SystemClock())
        status = ServingState()
        status.serves(account)
        assert status.is_ready
        leased = True
        status.opened(OpenParts(may_send=lambda: leased))
        assert status.is_ready
        leased = False
        assert "journal" in problems(status)
        leased = True

        await door.asker.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        status.opened(OpenParts(replicator_problem=lambda: "Java 17 is missing"))
        assert status.is_ready, "without a source or mirror there is no need for a replicator"
        await door.asker.ask("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}]})
        assert problems(status) == {"replicator": "Java 17 is missing"}
        status.opened(OpenParts())

        disk.break_always(Fault.FULL)
        assert "error" in await door.asker.publish("s", b"x")
        await until(lambda: "disk" in problems(status))
        assert problems(status)["disk"].startswith("stream S cannot be stored or folded: ")
        disk.heal()
        await until(lambda: status.is_ready)
        status.ended(account)
        assert not status.is_ready
