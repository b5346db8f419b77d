"""The account's answer is that of nats-server, and counts what the account holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doors import Asker, Wanted, opened_door
from headwater.control.account import AccountLimits


async def test_the_account_is_shown_as_nats_server_shows_it(twins: Any) -> None:
    await twins.ask("INFO")
    await twins.ask("STREAM.CREATE.F", {"name": "F", "max_bytes": 5000})
    await twins.ask("STREAM.CREATE.M", {"name": "M", "storage": "memory", "max_bytes": 700})
    await twins.publish("F", b"some bytes", b"NATS/1.0\r\nK: V\r\n\r\n")
    await twins.publish("M", b"some bytes")
    await twins.ask("STREAM.INFO.X")
    shown = await twins.ask("INFO")
    assert (shown["reserved_storage"], shown["reserved_memory"], shown["streams"]) == (5000, 700, 2)
    assert shown["api"] == {"level": 5, "total": 4, "errors": 1}


async def test_limits_are_shown_and_hold(tmp_path: Path) -> None:
    limits = AccountLimits(max_storage=1000, max_memory=500, max_streams=2)
    async with opened_door(tmp_path, Wanted(limits=limits)) as door:
        ask: Asker = door.asker
        shown = (await ask.ask("INFO"))["limits"]
        assert (shown["max_storage"], shown["max_memory"], shown["max_streams"]) == (1000, 500, 2)
        too_large = await ask.ask("STREAM.CREATE.S", {"name": "S", "max_bytes": 1001})
        assert too_large["error"]["err_code"] == 10047
        await ask.ask("STREAM.CREATE.S", {"name": "S", "max_bytes": 100})
        await ask.ask("STREAM.CREATE.T", {"name": "T", "max_bytes": 100})
        one_more = await ask.ask("STREAM.CREATE.U", {"name": "U", "max_bytes": 100})
        assert one_more["error"]["err_code"] == 10027
