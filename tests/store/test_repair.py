"""A damaged store is repaired: what can be read is served again, what cannot is recorded as lost."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from headwater.control.domain import Domain
from headwater.disk import RealDisk
from headwater.errors import Error
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import read_copy, read_directory
from headwater.store.finding import Kind
from headwater.store.repair import WOULD
from headwater.store.store_copy import BucketTarget, DirectoryTarget, copy
from headwater.table.remote_table import read_remote
from seaweed import SeaweedServer
from store import stores


@pytest.fixture
def held(tmp_path: Path) -> stores.Held:
    return asyncio.run(stores.make(tmp_path))


def kinds(store: Path) -> set[Kind]:
    return {found.kind for found in stores.checked(store).problems}


def content(store: Path) -> stores.Held:
    return asyncio.run(stores.content(store))


def test_a_healthy_store_needs_no_repair(tmp_path: Path, held: stores.Held) -> None:
    assert stores.checked(tmp_path).findings == []
    done = stores.repaired(tmp_path)
    assert (done.done, done.left, done.quarantine) == ([], [], None)
    assert content(tmp_path) == held


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(tmp_path: Path, held: stores.Held) -> None:
    stores.forget(tmp_path, "ORDERS")
    stores.flip(stores.data_files(tmp_path, "EVENTS")[0])
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and "catalog" not in p.name}
    done = stores.repaired(tmp_path, dry_run=True)
    assert done.done == ["$G/ORDERS: would be attached", f"$G/EVENTS: {WOULD[Kind.DATA]}"]
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and "catalog" not in p.name}
    assert before == after
    assert kinds(tmp_path) == {Kind.ORPHAN, Kind.DATA}


def test_a_damaged_data_file_goes_to_quarantine_and_its_messages_are_recorded_as_lost(
    tmp_path: Path, held: stores.Held
) -> None:
    damaged = stores.data_files(tmp_path)[1]
    stores.flip(damaged)
    assert kinds(tmp_path) == {Kind.DATA}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert done.quarantine is not None
    assert [p.name for p in done.quarantine.rglob("*.parquet")] == [damaged.name]
    assert "$G/ORDERS: recorded as lost: sequences 9 to 16" in done.done

    async def look(domain: Domain) -> None:
        stream = domain.stream("ORDERS")
        assert await stores.everything(stream) == {
            s: m for s, m in held["ORDERS"].items() if not 9 <= s <= 16
        }
        state = await stream.reading.state()
        assert state.lost is not None
        assert state.lost.msgs == tuple(range(9, 17))
        await stores.publish(stream, 1)
        assert (await stream.reading.state()).last_seq == max(held["ORDERS"]) + 1

    asyncio.run(stores.on(tmp_path, look))
    assert any(
        "recorded as lost: sequences 9 to 16" in str(found) for found in stores.checked(tmp_path).findings
    )


@pytest.mark.parametrize(
    "damage", ["one commit", "the first commit", "all of it", "the newest, and its file"]
)
def test_a_damaged_delta_log_is_rebuilt_from_its_files(
    tmp_path: Path, held: stores.Held, damage: str
) -> None:
    log = tmp_path / "$G" / "ORDERS" / "table" / "_delta_log"
    commits = sorted(log.glob("*.json"))
    lost: set[int] = set()
    match damage:
        case "one commit":
            stores.flip(commits[2])
        case "the first commit":
            commits[0].write_bytes(b"{}")
        case "all of it":
            shutil.rmtree(log)
        case _:
            stores.flip(commits[2])
            stores.data_files(tmp_path)[0].unlink()
            lost = set(range(1, 9))
    assert kinds(tmp_path) == {Kind.TABLE}
    done = stores.repaired(tmp_path)
    assert done.left == []
    kept = {seq: message for seq, message in held["ORDERS"].items() if seq not in lost}
    assert content(tmp_path) == held | {"ORDERS": kept}

    async def fold_more(domain: Domain) -> None:
        stream = domain.stream("ORDERS")
        await stores.publish(stream, 5)
        await stream.checkpoint()
        await stream.folder.tidy()
        assert len(await stores.everything(stream)) == len(kept) + 5

    asyncio.run(stores.on(tmp_path, fold_more))
    assert stores.checked(tmp_path).problems == []


@pytest.mark.parametrize("which", [0, 1])
def test_one_damaged_checkpoint_of_two_costs_nothing(tmp_path: Path, held: stores.Held, which: int) -> None:
    stores.flip(stores.checkpoints(tmp_path)[which])
    assert kinds(tmp_path) == {Kind.CHECKPOINT}
    assert content(tmp_path) == held
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert content(tmp_path) == held


def test_one_damaged_checkpoint_is_repaired_from_the_other(tmp_path: Path, held: stores.Held) -> None:
    damaged = stores.checkpoints(tmp_path)[0]
    stores.flip(damaged)
    done = stores.repaired(tmp_path)
    assert done.done == ["$G/ORDERS: its checkpoint was damaged; its copy is used, and nothing is lost"]
    assert done.left == []
    assert done.quarantine is not None
    assert (done.quarantine / "$G" / "ORDERS" / "checkpoint").exists()
    assert content(tmp_path) == held


def test_a_missing_newest_segment_is_reported_and_what_is_left_is_taken(
    tmp_path: Path, held: stores.Held
) -> None:
    newest = max((tmp_path / "$G" / "ORDERS" / "log").iterdir())
    newest.unlink()
    (found,) = stores.checked(tmp_path).problems
    assert (found.kind, found.meaning) == (Kind.LOG, "The stream is offline")
    assert f"segment {int(newest.stem)}, the newest one, is missing" in found.what
    asyncio.run(stores.on(tmp_path, lambda domain: is_offline(domain, "ORDERS")))
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert any("So that no sequence is used twice, it continues at" in line for line in done.done)
    assert content(tmp_path)["EVENTS"] == held["EVENTS"]
    left = content(tmp_path)["ORDERS"]
    # The last four messages were in the log only.
    assert left == {seq: message for seq, message in held["ORDERS"].items() if seq <= max(held["ORDERS"]) - 4}

    async def publish_more(domain: Domain) -> None:
        stream = domain.stream("ORDERS")
        await stores.publish(stream, 1)
        assert (await stream.reading.state()).last_seq > max(held["ORDERS"])

    asyncio.run(stores.on(tmp_path, publish_more))
    assert stores.checked(tmp_path).problems == []


def test_a_damaged_record_of_the_newest_segment_is_written_again(tmp_path: Path, held: stores.Held) -> None:
    stores.flip(tmp_path / "$G" / "ORDERS" / "log.newest")
    assert kinds(tmp_path) == {Kind.LOG}
    assert content(tmp_path) == held
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


async def is_offline(domain: Domain, name: str) -> None:
    """Fail unless exactly this stream is offline."""
    assert list(domain.offline) == [name]


def test_an_old_copy_is_not_used(tmp_path: Path, held: stores.Held) -> None:
    first, copy = stores.checkpoints(tmp_path)
    old = copy.read_bytes()

    async def more(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 5)
        await domain.stream("ORDERS").checkpoint()

    asyncio.run(stores.on(tmp_path, more))
    copy.write_bytes(old)
    stores.flip(first)
    done = stores.repaired(tmp_path)
    assert "neither its checkpoint nor the copy can be used" in done.done[0]
    assert done.left == []
    assert len(content(tmp_path)["ORDERS"]) >= len(held["ORDERS"]) + 5


def test_two_damaged_checkpoints_cost_positions_and_repair_says_so(tmp_path: Path, held: stores.Held) -> None:
    for path in stores.checkpoints(tmp_path):
        stores.flip(path)
    assert kinds(tmp_path) == {Kind.CHECKPOINT}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert (
        "$G/ORDERS: consumer 'reader': its position is lost; it begins by its deliver policy (all),"
        " so messages that it had acknowledged are delivered again"
    ) in done.done
    found = content(tmp_path)
    assert {s: m for s, m in found["ORDERS"].items() if s in held["ORDERS"]} == held["ORDERS"]
    assert set(found["ORDERS"]) - set(held["ORDERS"]) <= {5}


def test_damaged_records_of_nats_streaming_are_taken_out(tmp_path: Path, held: stores.Held) -> None:
    path = tmp_path / "stan.$G.db"
    at = path.read_bytes().index(b"hb")
    stores.flip(path, at)
    assert kinds(tmp_path) == {Kind.STAN}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert done.quarantine is not None
    assert [p.name for p in done.quarantine.iterdir()] == ["stan.$G.db"]


def test_a_store_of_a_newer_release_is_not_repaired(tmp_path: Path, held: stores.Held) -> None:
    with sqlite3.connect(tmp_path / "catalog.db") as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(Error, match=r"newer release.*nothing was changed"):
        stores.repaired(tmp_path)
    assert not (tmp_path / ".quarantine").exists()


def test_checkpoints_and_tables_of_streams_in_a_bucket_are_repaired(
    tmp_path: Path, held: stores.Held
) -> None:
    bucket = Bucket(BucketAddress(f"file://{tmp_path}/objects/prod"))
    copy(read_directory(tmp_path), BucketTarget(bucket), lambda count: None)
    store = tmp_path / "below"
    copy(read_copy(bucket).without_tables(), DirectoryTarget(store, bucket), lambda count: None)
    for path in stores.checkpoints(store):
        stores.flip(path)
    done = stores.repaired(store)
    assert done.left == []
    assert "rebuilt its state from log and table" in done.done[0]
    table = next((tmp_path / "objects").rglob("ORDERS/table"))
    stores.flip(next(table.glob("_delta_log/*.json")))
    assert stores.repaired(store, dry_run=True).left
    assert not (table / "_quarantine").exists()
    done = stores.repaired(store)
    assert done.left == []
    assert any("rebuilt the Delta log" in line for line in done.done)
    assert any(f"damaged files are in file://{table}/_quarantine/" in line for line in done.done)
    assert list((table / "_quarantine").rglob("*.json"))
    copy(read_directory(store), DirectoryTarget(tmp_path / "local"), lambda count: None)
    found = content(tmp_path / "local")["ORDERS"]
    assert {seq: message for seq, message in found.items() if seq in held["ORDERS"]} == held["ORDERS"]


def test_a_damaged_file_in_a_bucket_is_set_aside_and_its_messages_are_lost(
    tmp_path: Path, held: stores.Held
) -> None:
    bucket = Bucket(BucketAddress(f"file://{tmp_path}/objects/prod"))
    copy(read_directory(tmp_path), BucketTarget(bucket), lambda count: None)
    store = tmp_path / "below"
    copy(read_copy(bucket).without_tables(), DirectoryTarget(store, bucket), lambda count: None)
    table = next((tmp_path / "objects").rglob("ORDERS/table"))
    file = max(table.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    stores.flip(file)
    done = stores.repaired(store)
    assert done.left == []
    assert not file.exists()
    assert any(path.name == file.name for path in (table / "_quarantine").rglob("*.parquet"))
    assert any("recorded as lost: sequences" in line for line in done.done)
    assert stores.repaired(store).done == []


def test_a_table_on_an_s3_server_is_repaired_in_its_place(
    tmp_path: Path, held: stores.Held, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(seaweed_server.new_bucket().below("prod"))
    copy(read_directory(tmp_path), BucketTarget(bucket), lambda count: None)
    store = tmp_path / "below"
    copy(read_copy(bucket).without_tables(), DirectoryTarget(store, bucket), lambda count: None)
    remote = read_remote(RealDisk(), store / "$G" / "ORDERS")
    assert remote is not None
    table = Bucket(remote.bucket)
    keys = {info.key: info.size for info in table.list()}
    file = max((key for key in keys if key.endswith(".parquet")), key=lambda key: keys[key])
    commit = next(key for key in sorted(keys) if key.endswith(".json"))
    for key in (file, commit):
        damaged = bytearray(table.get(key))
        damaged[len(damaged) // 2] ^= 16
        table.put(key, bytes(damaged))
    done = stores.repaired(store)
    assert done.left == []
    assert any("rebuilt the Delta log" in line for line in done.done)
    assert any("recorded as lost: sequences" in line for line in done.done)
    aside = {info.key.split("/", 2)[2] for info in table.list("_quarantine")}
    assert aside >= {file, commit}
    assert stores.repaired(store).done == []
    copy(read_directory(store), DirectoryTarget(tmp_path / "local"), lambda count: None)
    found = content(tmp_path / "local")["ORDERS"]
    assert found
    assert {seq: held["ORDERS"][seq] for seq in found} == found


def test_a_lost_log_costs_only_what_was_in_it_alone(tmp_path: Path, held: stores.Held) -> None:
    shutil.rmtree(tmp_path / "$G" / "ORDERS" / "log")
    assert kinds(tmp_path) == {Kind.LOG}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert any("the end of its log is missing" in line for line in done.done)
    found = content(tmp_path)["ORDERS"]
    assert {seq: message for seq, message in found.items() if seq != 5} == {
        seq: message for seq, message in held["ORDERS"].items() if seq <= 30
    }

    async def publish(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 1)
        assert (await domain.stream("ORDERS").reading.state()).last_seq > max(held["ORDERS"]) + 1

    asyncio.run(stores.on(tmp_path, publish))


def test_a_missing_checkpoint_is_repaired_from_its_copy(tmp_path: Path, held: stores.Held) -> None:
    stores.checkpoints(tmp_path)[0].unlink()
    assert kinds(tmp_path) == {Kind.CHECKPOINT}
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


def test_two_missing_checkpoints_are_as_two_damaged_ones(tmp_path: Path, held: stores.Held) -> None:
    for path in stores.checkpoints(tmp_path):
        path.unlink()
    assert kinds(tmp_path) == {Kind.CHECKPOINT}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert any("consumer 'reader': its position is lost" in line for line in done.done)
    found = content(tmp_path)["ORDERS"]
    assert {s: m for s, m in found.items() if s in held["ORDERS"]} == held["ORDERS"]
