"""Each kind of damage to a stream is named with its place; a healthy stream has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.store.finding import Finding, Kind
from headwater.store.shadow import services
from headwater.store.stream_check import StreamCheck
from headwater.wire.stream_json import encode_config
from store import stores

CONSUMERS = [ConsumerRow("$G", "ORDERS", "reader", '{"durable_name":"reader"}', 7)]


def checked(store: Path, consumers: list[ConsumerRow] = CONSUMERS, config: str = "") -> list[Finding]:
    config = config or encode_config(stores.config("ORDERS")).decode()
    row = StreamRow("$G", "ORDERS", config, 1, "id", "ORDERS")
    steps: list[str] = []
    with services() as shared:
        found = StreamCheck(stores.DISK, shared, row, row.home(store)).run(consumers, steps.append)
    return found


async def test_a_healthy_stream_has_nothing_to_report(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    assert checked(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("checkpoint", Kind.CHECKPOINT),
        ("table/_delta_log/00000000000000000001.json", Kind.TABLE),
        ("consumers/reader.7.1.json", Kind.DECLARATION),
        ("log.newest", Kind.LOG),
    ],
)
async def test_damage_is_named_with_its_place(tmp_path: Path, path: str, kind: Kind) -> None:
    await stores.make(tmp_path)
    stores.flip(tmp_path / "$G" / "ORDERS" / path)
    (found,) = checked(tmp_path)
    assert (found.kind, found.stream) == (kind, "$G/ORDERS")
    assert str(tmp_path / "$G" / "ORDERS") in f"{found.where} {found.what}"


async def test_a_damaged_file_is_named_with_its_sequences(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    path = stores.data_files(tmp_path)[1]
    stores.flip(path)
    (found,) = checked(tmp_path)
    assert (found.kind, found.where) == (Kind.DATA, str(path))
    assert "sequences 9 to 16" in found.what


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    stores.data_files(tmp_path)[0].unlink()
    assert [found.kind for found in checked(tmp_path)] == [Kind.DATA]


async def test_a_table_that_is_behind_is_named(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    log = tmp_path / "$G" / "ORDERS" / "table" / "_delta_log"
    # The newest but one holds what the log was trimmed of; the newest is still in the log.
    for commit in sorted(log.glob("*.json"))[-2:]:
        commit.unlink()
    (found,) = checked(tmp_path)
    assert found.kind is Kind.TABLE
    assert "was behind" in found.what


async def test_a_consumer_or_a_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    bad = ConsumerRow("$G", "ORDERS", "bad", '{"wings": 2}', 7)
    assert [found.kind for found in checked(tmp_path, [bad])] == [Kind.CONSUMER]
    assert [found.kind for found in checked(tmp_path, config="{")] == [Kind.DECLARATION]
