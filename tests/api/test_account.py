"""The account's answer is that of nats-server, and counts what the account holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doors import Asker, Wanted, connected, normal, opened_door
from headwater.control.account import AccountLimits
from servers import nats_server

LIMITED = """
accounts { A {
  jetstream { max_mem: 20000, max_file: 30000, max_streams: 3, max_consumers: 2, max_ack_pending: 50
    mem_max_stream_bytes: 5000, disk_max_stream_bytes: 6000, max_bytes_required: true }
  users: [ { user: a, password: a } ]
} }
no_auth_user: a
"""


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


async def test_the_limits_of_an_account_hold_as_with_nats_server(tmp_path: Path) -> None:
    limits = AccountLimits(
        max_memory=20_000,
        max_storage=30_000,
        max_streams=3,
        max_consumers=2,
        max_ack_pending=50,
        memory_max_stream_bytes=5000,
        storage_max_stream_bytes=6000,
        max_bytes_required=True,
    )
    asked: list[tuple[str, dict[str, Any] | None]] = [
        ("INFO", None),
        ("STREAM.CREATE.S", {"name": "S"}),
        ("STREAM.CREATE.S", {"name": "S", "max_bytes": 6001}),
        ("STREAM.CREATE.M", {"name": "M", "max_bytes": 5001, "storage": "memory"}),
        ("STREAM.CREATE.S", {"name": "S", "max_bytes": 6000, "max_consumers": 3}),
        ("STREAM.CREATE.S", {"name": "S", "max_bytes": 6000}),
        ("STREAM.UPDATE.S", {"name": "S", "max_bytes": 6001}),
        ("STREAM.UPDATE.S", {"name": "S"}),
        ("STREAM.CREATE.M", {"name": "M", "max_bytes": 5000, "storage": "memory"}),
        ("STREAM.CREATE.T", {"name": "T", "max_bytes": 100}),
        ("STREAM.CREATE.U", {"name": "U", "max_bytes": 100}),
    ]
    consumers: dict[str, dict[str, Any]] = {
        "a": {"ack_policy": "explicit", "max_ack_pending": 51},
        "b": {"ack_policy": "explicit"},
        "c": {"ack_policy": "explicit", "max_ack_pending": 50},
        "d": {},
    }
    for name, more in consumers.items():
        body = {"stream_name": "S", "config": {"durable_name": name, **more}}
        asked.append((f"CONSUMER.CREATE.S.{name}", body))
    config = f"server_name: probe\n{LIMITED}"
    async with (
        opened_door(tmp_path, Wanted(limits=limits)) as door,
        nats_server(config, jetstream=True) as server,
    ):
        theirs = await connected(server.client_url)
        codes = []
        for subject, request in asked:
            wanted = normal(await Asker(theirs).ask(subject, request))
            got = normal(await door.asker.ask(subject, request))
            assert got == wanted, f"{subject} {request}"
            codes.append(got.get("error", {}).get("err_code"))
        assert {10113, 10122, 10026, 10027, 10121} <= set(codes), codes
        await theirs.close()


async def test_a_full_account_refuses_publishes_as_nats_server_does(tmp_path: Path) -> None:
    config = """server_name: probe
accounts { A {
  jetstream { max_mem: 2000, max_file: 10000 }
  users: [ { user: a, password: a } ]
} }
no_auth_user: a
"""
    limits = AccountLimits(max_memory=2000, max_storage=10_000)
    with_id = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n"
    async with (
        opened_door(tmp_path, Wanted(limits=limits)) as door,
        nats_server(config, jetstream=True) as server,
    ):
        theirs = await connected(server.client_url)

        async def both(subject: str, data: bytes, headers: bytes = b"") -> dict[str, Any]:
            wanted = normal(await Asker(theirs).publish(subject, data, headers))
            got: dict[str, Any] = normal(await door.asker.publish(subject, data, headers))
            assert got == wanted, f"{subject} {len(data)} {headers!r}"
            return got

        async def ask(subject: str, request: dict[str, Any] | None = None) -> None:
            wanted = normal(await Asker(theirs).ask(subject, request))
            assert normal(await door.asker.ask(subject, request)) == wanted, subject

        for storage, name, most in (("file", "F", 75), ("memory", "M", 20)):
            for each in (name, f"{name}2"):
                await ask(f"STREAM.CREATE.{each}", {"name": each, "storage": storage})
            codes = []
            for number in range(most):
                headers = with_id % number if number % 10 == 9 else b""
                answer = await both(name, b"x" * 100, headers)
                codes.append(answer.get("error", {}).get("err_code"))
            assert None in codes
            assert codes[-1] == 10002
            await both(name, b"x" * 100, with_id % 9)  # a duplicate
            await both(name, b"x" * 100, b"NATS/1.0\r\nNats-Expected-Last-Sequence: 3\r\n\r\n")
            await both(name, b"y")
            await both(f"{name}2", b"y")
            for _ in range(5):
                await both(f"{name}2", b"x" * 100)
            await ask(f"STREAM.PURGE.{name}")
            for number in range(30):
                await both(name, b"x" * 40 * number)
            await ask("INFO")
        await ask("STREAM.DELETE.F")
        await ask("STREAM.DELETE.F2")
        # Like nats-server, limits of the stream come second: nothing leaves to make room.
        for more in ({"max_bytes": 10_000}, {"max_msgs": 20}, {"max_bytes": 5000}):
            await ask("STREAM.CREATE.L", {"name": "L", **more})
            for _ in range(30):
                await both("L", b"x" * 500)
            await ask("STREAM.INFO.L")
            await ask("STREAM.DELETE.L")
        await theirs.close()
