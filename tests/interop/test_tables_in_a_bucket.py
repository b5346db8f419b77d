"""An engine whose tables are in a bucket: a real engine, a real S3 server, and a link that can be cut."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import nats
import pytest
from deltalake import DeltaTable
from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy, StorageType
from nats.js.errors import APIError, NotFoundError

import headwater
from cables import Cable
from engines import RunningEngine, engine
from headwater.disk import RealDisk
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.table.remote_table import read_remote
from seaweed import SeaweedServer
from waits import until

QUICK = ("--fold-interval-s", "0.1", "--compact-interval-s", "0.3", "--erase-grace-s", "0.5")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def address(seaweed_server: SeaweedServer) -> BucketAddress:
    return seaweed_server.new_bucket().below("prod")


def flags(address: BucketAddress) -> tuple[str, ...]:
    assert address.endpoint is not None
    return (*QUICK, "--tables", address.url, "--tables-endpoint", address.endpoint)


@asynccontextmanager
async def connected(running: RunningEngine) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(running.client_url)
    try:
        yield client.jetstream(timeout=60)
    finally:
        await client.close()


async def publish(js: JetStreamContext, first: int, last: int, subject: str = "orders.new") -> None:
    for number in range(first, last + 1):
        ack = await js.publish(subject, b"%d" % number)
        assert ack.seq == number


def seqs_in(address: BucketAddress, stream: str = "ORDERS") -> list[int]:
    """Return the sequences that a reader finds in the bucket."""
    found = headwater.read(f"{address.url}/$G/{stream}", columns=["seq"])
    return [int(seq) for seq in found["seq"].to_pylist()]


def holds(address: BucketAddress, seqs: list[int], stream: str = "ORDERS") -> bool:
    try:
        return seqs_in(address, stream) == seqs
    except headwater.Error:
        return False


async def test_folds_go_to_the_bucket_and_messages_come_from_there(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *flags(address)) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, 50)
            await until(
                lambda: holds(address, list(range(1, 51))), "the fold is in the bucket", lambda: running.log
            )
            home = running.store / "$G" / "ORDERS"
            assert (home / "table").is_file(), "no table on the disk"
            assert not list(running.store.rglob("*.parquet"))
        await running.kill()
        await running.start()
        async with connected(running) as js:
            assert (await js.stream_info("ORDERS")).state.messages == 50
            assert (await js.get_msg("ORDERS", 7)).data == b"7"
            assert list((running.store / ".tables" / "cache").iterdir()), "what was read is kept"
            subscription = await js.pull_subscribe("orders.>", durable="all")
            got: list[bytes] = []
            while len(got) < 50:
                got += [each.data for each in await subscription.fetch(50 - len(got), timeout=60)]
            assert got == [b"%d" % number for number in range(1, 51)]
    assert headwater.read(home, columns=["seq"], limit=1)["seq"].to_pylist() == [1]


async def test_a_damaged_cache_is_read_again_from_the_bucket(tmp_path: Path, address: BucketAddress) -> None:
    async with engine(tmp_path, *flags(address)) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, 20)
            await until(lambda: holds(address, list(range(1, 21))), "the fold is in the bucket")
        for _ in range(2):
            await running.kill()
            for kept in (running.store / ".tables" / "cache").iterdir():
                kept.write_bytes(b"rubbish")
            await running.start()
            async with connected(running) as js:
                assert (await js.get_msg("ORDERS", 20)).data == b"20"


async def test_publishing_continues_while_the_bucket_is_unreachable_and_folds_catch_up(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    async with engine(tmp_path, *flags(through)) as running:
        async with connected(running) as js:
            for name in ("ORDERS", "OTHER"):
                await js.add_stream(name=name, subjects=[f"{name.lower()}.>"], storage=StorageType.FILE)
            await publish(js, 1, 10)
            await until(lambda: holds(address, list(range(1, 11))), "the fold is in the bucket")
            await cable.cut()
            await publish(js, 11, 40)
            await publish(js, 1, 5, "other.new")
            await running.says("messages stay in the logs of their streams")
            assert (await js.get_msg("ORDERS", 40)).data == b"40"
            segments = len(list((running.store / "$G" / "ORDERS" / "log").iterdir()))
            await publish(js, 41, 60)
            assert (await js.stream_info("ORDERS")).state.messages == 60
            assert len(list((running.store / "$G" / "ORDERS" / "log").iterdir())) <= segments + 2
            assert seqs_in(address) == list(range(1, 11))
            await cable.restore()
            await running.says("works again after")
            await until(
                lambda: holds(address, list(range(1, 61))), "the bucket has caught up", lambda: running.log
            )
            await until(lambda: holds(address, [1, 2, 3, 4, 5], "OTHER"), "so has the other stream")
    await cable.cut()


async def test_an_engine_starts_while_the_bucket_is_unreachable_and_publishing_continues(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    async with engine(tmp_path, *flags(through)) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await js.add_stream(name="EMPTY", subjects=["empty.>"], storage=StorageType.FILE)
            await publish(js, 1, 10)
            await until(lambda: holds(address, list(range(1, 11))), "folded", lambda: running.log)
            await cable.cut()
            await publish(js, 11, 30)
        for first in (31, 41):
            await running.kill()
            await running.start()
            assert "cannot be reached" in running.log
            assert "its table is unreachable" in running.log
            async with connected(running) as js:
                await publish(js, first, first + 9)
                assert (await js.get_msg("ORDERS", first)).data == b"%d" % first
                assert (await js.stream_info("ORDERS")).state.messages == first + 9
                assert (await js.publish("empty.a", b"x")).seq == (first - 21) // 10
        with pytest.raises(APIError, match="cannot be reached"):
            async with connected(running) as js:
                await js.add_stream(name="NEW", subjects=["new.>"], storage=StorageType.FILE)
        await cable.restore()
        await until(lambda: holds(address, list(range(1, 51))), "it has caught up", lambda: running.log)
        await until(lambda: holds(address, [1, 2], "EMPTY"), "so has the other", lambda: running.log)
        async with connected(running) as js:
            assert (await js.get_msg("ORDERS", 3)).data == b"3"
        await running.kill()
        await running.start()
        async with connected(running) as js:
            assert (await js.stream_info("ORDERS")).state.messages == 50
    await cable.cut()


async def test_an_address_that_was_never_claimed_is_refused_while_it_is_away(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    async with engine(tmp_path, *flags(through)):
        pass
    await cable.cut()
    other = replace(through, url=f"{address.url}-other")
    running = RunningEngine(tmp_path, flags(other))
    running.launch()
    assert await running.ended() != 0
    assert "cannot be reached" in running.log
    assert "Traceback" not in running.log


async def is_refused(js: JetStreamContext, seq: int) -> bool:
    """Return whether a message cannot be read because the bucket is unreachable."""
    try:
        await js.get_msg("ORDERS", seq)
    except APIError as error:
        assert "the object store cannot be reached" in str(error)  # noqa: PT017
        return True
    return False


async def test_a_consumer_of_folded_messages_waits_for_the_bucket_and_continues(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    # Nothing is kept on the disk or in memory: every read asks the bucket.
    uncached = ("--tables-cache-bytes", "0", "--read-cache-bytes", "0")
    async with engine(tmp_path, *flags(through), *uncached) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, 30)
            await until(lambda: holds(address, list(range(1, 31))), "the fold is in the bucket")

            async def needs_bucket() -> bool:
                # A fold whose end the cut interrupts leaves its messages in memory. Let it end, cut again.
                await cable.cut()
                if await is_refused(js, 3):
                    return True
                await cable.restore()
                await asyncio.sleep(1)
                return False

            await until(needs_bucket, "a read needs the bucket")
            subscription = await js.pull_subscribe("orders.>", durable="all")
            with pytest.raises(TimeoutError):
                await subscription.fetch(1, timeout=2)
            await cable.restore()
            got: list[bytes] = []

            async def has_all() -> bool:
                try:
                    messages = await subscription.fetch(30, timeout=5)
                except TimeoutError:
                    return False
                for each in messages:
                    await each.ack_sync()
                    got.append(each.data)
                return len(got) >= 30

            await until(has_all, "every message is delivered", lambda: f"{got} {running.log}")
            assert got == [b"%d" % number for number in range(1, 31)]
            await cable.cut()
        await running.stop()
        assert await running.ended() in (0, -15)


async def all_folded(address: BucketAddress, expected: dict[str, int]) -> None:
    for stream, last_seq in expected.items():
        seqs = list(range(1, last_seq + 1))
        await until(lambda: holds(address, seqs, stream), f"{stream} is in the bucket")  # noqa: B023


async def test_removals_wait_for_no_bucket_that_hangs_and_happen_once_it_answers(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    # Nothing is kept on the disk or in memory: every read asks the bucket.
    uncached = ("--tables-cache-bytes", "0", "--read-cache-bytes", "0")
    async with engine(tmp_path, *flags(through), *uncached) as running, connected(running) as js:
        file = StorageType.FILE
        await js.add_stream(
            name="WORK", subjects=["work.>"], storage=file, retention=RetentionPolicy.WORK_QUEUE
        )
        await js.add_stream(name="CAPPED", subjects=["capped.>"], storage=file, max_msgs=20)
        await js.add_stream(name="KEYS", subjects=["keys.>"], storage=file, max_msgs_per_subject=70)
        await js.add_stream(name="KV", subjects=["kv.>"], storage=file, max_msgs_per_subject=2)
        await js.add_stream(name="OTHER", subjects=["other.>"], storage=file)
        await publish(js, 1, 30, "work.a")
        await publish(js, 1, 20, "capped.a")
        await publish(js, 1, 70, "keys.a")
        await publish(js, 1, 2, "kv.a")
        await all_folded(address, {"WORK": 30, "CAPPED": 20, "KEYS": 70, "KV": 2})
        queue = await js.pull_subscribe("work.>", durable="workers")
        work = await queue.fetch(10, timeout=60)
        assert len(work) == 10
        cable.freeze()
        # A read on the event loop would take a request's 30 seconds, and more for those that follow.
        for number, each in enumerate(work):
            await each.ack_sync(timeout=20)
            await js.publish("capped.a", b"%d" % number, timeout=20)
            await js.publish("keys.a", b"%d" % number, timeout=20)
            await js.publish("kv.a", b"%d" % number, timeout=20)
            await js.publish("other.a", b"%d" % number, timeout=20)
        assert (await js.stream_info("KV")).state.messages == 2
        cable.thaw()

        async def count(stream: str) -> int:
            return int((await js.stream_info(stream)).state.messages)

        for stream, left in {"WORK": 20, "CAPPED": 20, "KEYS": 70, "KV": 2, "OTHER": 10}.items():

            async def has_left(stream: str = stream, left: int = left) -> bool:
                return await count(stream) == left

            await until(has_left, f"{stream} has {left}", lambda: running.log)
        assert (await js.stream_info("CAPPED")).state.first_seq == 11
        assert (await js.get_msg("KEYS", 11)).data == b"11"
    await cable.cut()


async def test_what_was_folded_lately_is_read_and_evicted_during_an_outage(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    async with engine(tmp_path, *flags(through)) as running, connected(running) as js:
        await js.add_stream(name="CAPPED", subjects=["capped.>"], storage=StorageType.FILE, max_msgs=20)
        await publish(js, 1, 20, "capped.a")
        await all_folded(address, {"CAPPED": 20})
        await cable.cut()
        await publish(js, 21, 30, "capped.a")
        assert (await js.get_msg("CAPPED", 20)).data == b"20"

        async def is_evicted() -> bool:
            return (await js.stream_info("CAPPED")).state.first_seq == 11

        await until(is_evicted, "the oldest are evicted", lambda: running.log)
        await cable.restore()
    await cable.cut()


async def test_a_copy_of_a_store_takes_the_prefix_and_the_other_engine_ends(
    tmp_path: Path, address: BucketAddress
) -> None:
    (tmp_path / "copy").mkdir()
    async with engine(tmp_path, *flags(address)) as running, connected(running) as js:
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
        await publish(js, 1, 20)
        await all_folded(address, {"ORDERS": 20})
        await running.stop()
        shutil.copytree(running.store, tmp_path / "copy" / "store")
        await running.start()
        async with engine(tmp_path / "copy", *flags(address)) as second, connected(second) as others:
            ack = await others.publish("orders.new", b"21")
            assert ack.seq == 21
            await all_folded(address, {"ORDERS": 21})
            async with connected(running) as js:
                with suppress(Exception):  # it is refused, or it is not: the engine that lost the prefix ends
                    await js.publish("orders.new", b"lost", timeout=20)
            assert await running.ended() != 0
            assert f"uses {address.url}, with epoch" in running.log
            await publish(others, 22, 30)
            await all_folded(address, {"ORDERS": 30})


async def test_a_prefix_below_that_of_a_store_is_refused(tmp_path: Path, address: BucketAddress) -> None:
    async with engine(tmp_path, *flags(address)):
        pass
    below = address.below("more/prod")
    (tmp_path / "other").mkdir()
    running = RunningEngine(tmp_path / "other", flags(below))
    running.launch()
    assert await running.ended() != 0
    assert f"{below.url} is below {address.url}, which holds the tables of a store" in running.log
    assert "Traceback" not in running.log
    assert not list(Bucket(below).list())


def data_files(folder: Path) -> list[str]:
    """Return the names of the data files below a folder, also while an engine removes folders there."""
    return [name for _, _, names in os.walk(folder) for name in names if name.endswith(".parquet")]


async def test_a_folder_can_be_the_place_of_tables(tmp_path: Path) -> None:
    address = BucketAddress(f"file://{tmp_path}/tables/prod")
    async with engine(tmp_path, *QUICK, "--tables", address.url) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, 20)
            await until(lambda: holds(address, list(range(1, 21))), "folded", lambda: running.log)
        await running.kill()
        await running.start()
        async with connected(running) as js:
            assert (await js.get_msg("ORDERS", 7)).data == b"7"
            await js.delete_stream("ORDERS")
            await until(lambda: not data_files(tmp_path / "tables"), "nothing is left")


async def test_removed_messages_are_erased_and_replaced_files_swept(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *flags(address), "--erase-interval-s", "0.1") as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            for first in (1, 11, 21):
                await publish(js, first, first + 9)
                await until(lambda: holds(address, list(range(1, first + 10))), "folded")  # noqa: B023
            await js.delete_msg("ORDERS", 5)
            left = [seq for seq in range(1, 31) if seq != 5]
            await until(lambda: holds(address, left), "the message is erased", lambda: running.log)
            bucket = Bucket(address.below("$G/ORDERS/table"))

            def unused() -> int:
                delta = DeltaTable(bucket.location.delta_url, storage_options=bucket.location.delta_options())
                stored = sum(info.key.endswith(".parquet") for info in bucket.list())
                return stored - len(delta.file_uris())

            await until(lambda: unused() == 0, "replaced files are swept", lambda: running.log)
            await js.purge_stream("ORDERS")
            await until(lambda: holds(address, []) and unused() == 0, "nothing is left", lambda: running.log)


async def test_a_deleted_stream_leaves_nothing_and_its_name_can_be_used_again(
    tmp_path: Path, address: BucketAddress
) -> None:
    bucket = Bucket(address.below("$G"))
    async with engine(tmp_path, *flags(address)) as running, connected(running) as js:
        for round in (1, 2):
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, 3 * round)
            remote = read_remote(RealDisk(), running.store / "$G" / "ORDERS")
            assert remote is not None
            table = remote.address
            await until(lambda: len(headwater.read(table)) == 3 * round, "folded")  # noqa: B023
            await js.delete_stream("ORDERS")
        with pytest.raises(NotFoundError):
            await js.stream_info("ORDERS")
        await until(lambda: not list(bucket.list()), "nothing is left", lambda: str(list(bucket.list())))


async def test_memory_streams_and_streams_that_were_there_keep_their_tables(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *QUICK) as running, connected(running) as js:
        await js.add_stream(name="OLD", subjects=["old.>"], storage=StorageType.FILE)
        await publish(js, 1, 3, "old.a")
    async with engine(tmp_path, *flags(address)) as running, connected(running) as js:
        await js.add_stream(name="MEMORY", subjects=["memory.>"], storage=StorageType.MEMORY)
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
        await publish(js, 4, 6, "old.a")
        await publish(js, 1, 3, "memory.a")
        await publish(js, 1, 3)
        await until(lambda: holds(address, [1, 2, 3]), "folded")
        assert (running.store / "$G" / "OLD" / "table").is_dir()
        assert {info.key.split("/")[1] for info in Bucket(address).list("$G")} == {"ORDERS"}
    async with engine(tmp_path, *QUICK) as running, connected(running) as js:
        assert (await js.stream_info("OLD")).state.messages == 6
        with pytest.raises(APIError, match="start the engine with --tables"):
            await js.stream_info("ORDERS")


async def test_two_stores_cannot_have_one_address(tmp_path: Path, address: BucketAddress) -> None:
    async with engine(tmp_path / "one", *flags(address)):
        second = RunningEngine(tmp_path / "one", flags(address), tmp_path / "two")
        second._log = tmp_path / "two.log"
        second.launch()
        assert await second.ended() != 0
        assert "holds the tables of another store" in second.log
        assert "Traceback" not in second.log


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("s3://missing/prod", "the bucket does not exist"),
        ("s3://{bucket}/pro d", "letters, digits"),
        ("lake", "not the address of a bucket"),
    ],
)
async def test_a_wrong_address_is_one_sentence(
    tmp_path: Path, seaweed_server: SeaweedServer, tables: str, says: str
) -> None:
    url = tables.replace("s3://{bucket}", seaweed_server.new_bucket().url)
    running = RunningEngine(tmp_path, (*QUICK, "--tables", url))
    running.launch()
    assert await running.ended() != 0
    assert says in running.log
    assert "Traceback" not in running.log


async def test_wrong_credentials_are_one_sentence_and_never_shown(
    tmp_path: Path, address: BucketAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    running = RunningEngine(tmp_path, flags(address))
    running.launch()
    assert await running.ended() != 0
    assert "the credentials were refused" in running.log
    assert "wrong-secret" not in running.log
    assert "Traceback" not in running.log


async def test_a_store_with_tables_in_a_bucket_is_verified(tmp_path: Path, address: BucketAddress) -> None:
    async with engine(tmp_path, *flags(address)) as running, connected(running) as js:
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
        await publish(js, 1, 20)
        await until(lambda: holds(address, list(range(1, 21))), "folded")
    assert verified(running.store) == 0
    bucket = Bucket(address.below("$G/ORDERS/table"))
    key = next(info.key for info in bucket.list() if info.key.endswith(".parquet"))
    content = bytearray(bucket.get(key))
    content[40] ^= 255
    bucket.put(key, bytes(content))
    assert verified(running.store) != 0


def verified(store: Path) -> int:
    """Return the status of `headwater store verify`."""
    command = [sys.executable, "-m", "headwater", "store", "verify", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.returncode
