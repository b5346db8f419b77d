"""Tests of monitor.table_page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from doors import opened_door
from headwater.clock import SystemClock
from headwater.model.copied import Copied
from headwater.model.times import format_time
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState
from headwater.monitor.table_page import TablePage, bounded, kind_of
from headwater.table.datafile import DataFile

FILE = DataFile("base=1/x.parquet", 1, 10, 1, 10, 100, 0, 1)


async def page(shown: TablePage, **query: str) -> tuple[int, Any]:
    status, kind, body = await shown.page(query)
    assert kind == "application/json"
    return status, json.loads(body)


async def test_the_files_of_a_table_are_listed_some_at_a_time(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        stream = door.domain.stream("ORDERS")
        for _ in range(3):
            for _ in range(4):
                await door.asker.publish("orders.eu", b"x")
            await stream.folder.fold()
        await door.asker.publish("orders.eu", b"new")
        await door.asker.ask("STREAM.MSG.DELETE.ORDERS", {"seq": 6})
        status = ServingState()
        served = ServedAccount("$G", "", "s", door.domain, door.consumers, door.upstreams, SystemClock())
        status.serves(served)
        shown = TablePage(status)

        code, found = await page(shown, stream="ORDERS")
        assert code == 200
        assert (found["account"], found["files"], found["through"], found["last_seq"]) == ("$G", 3, 12, 13)
        assert found["bytes"] == sum(file["bytes"] for file in found["listed"])
        assert [(file["first_seq"], file["last_seq"]) for file in found["listed"]] == [
            (9, 12),
            (5, 8),
            (1, 4),
        ]
        assert [(file["messages"], file["removed"]) for file in found["listed"]] == [(4, 0), (3, 1), (4, 0)]
        assert {file["kind"] for file in found["listed"]} == {"small"}
        assert found["unfolded"] >= 1

        _, second = await page(shown, stream="ORDERS", offset="1", limit="1")
        assert [file["first_seq"] for file in second["listed"]] == [5]
        assert (await page(shown, stream="ORDERS", offset="9"))[1]["listed"] == []
        created = format_time(stream.created_ns)
        assert (await page(shown, stream="ORDERS", created=created))[0] == 200
        for other in (
            {"stream": "NONE"},
            {"account": "B"},
            {"created": "2020-01-01T00:00:00Z"},
            {"stream": ""},
        ):
            assert (await page(shown, **{"stream": "ORDERS", **other}))[0] == 404


def test_files_are_full_small_or_linked() -> None:
    assert kind_of(FILE) == "small"
    assert kind_of(replace(FILE, size_bytes=100 << 20)) == "full"
    assert kind_of(replace(FILE, rows=600_000, last_seq=600_000)) == "full"
    assert kind_of(replace(FILE, copied=Copied("O", "I", 0, 0, 1, 2, 0))) == "linked"


def test_numbers_of_a_query_are_bounded() -> None:
    given = {"a": "7", "b": "-1", "c": "x", "d": "9" * 50, "e": "²"}
    assert [bounded(given, name, 3, 100) for name in "abcdef"] == [7, 3, 3, 100, 3, 3]
