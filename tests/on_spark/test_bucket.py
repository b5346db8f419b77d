"""Spark tasks that read and write tables in a bucket, with credentials that only the store's file has."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from nats.js.api import StorageType, StreamConfig, StreamSource

from engines import RunningEngine, engine
from headwater.replication import handover
from interop.test_copies_in_a_bucket import COUNT, connected, copied, logged, numbers, publish
from interop.test_tables_in_a_bucket import flags, holds
from seaweed import ACCESS_KEY, SECRET_KEY, SeaweedServer
from waits import until

SPARK = ("--spark-master", "local[2]", "--spark-driver-memory", "512m")


def settings_file(directory: Path) -> Path:
    """Return a file with the credentials, which nothing else has."""
    path = directory / "settings.toml"
    path.write_text(
        f'tables_access_key_id = "{ACCESS_KEY}"\ntables_secret_access_key = "{SECRET_KEY}"\n', "utf-8"
    )
    return path


def kill_replicators(running: RunningEngine) -> int:
    """Kill the replicators that the engine has started; Spark's workers start and end during this."""
    killed = 0
    for process in psutil.Process(running.pid).children(recursive=True):
        try:
            if any("replicator" in word for word in process.cmdline()):
                process.kill()
                killed += 1
        except psutil.Error:
            continue  # it has ended
    return killed


async def test_spark_copies_within_the_bucket_and_survives_a_killed_replicator(
    tmp_path: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = seaweed_server.new_bucket().below("prod")
    config = ("--config", str(settings_file(tmp_path)))
    async with engine(tmp_path, *flags(address), *SPARK, *config) as running, connected(running) as js:
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
        await publish(js, 1, COUNT)
        some = StreamSource(name="ORDERS", filter_subject="orders.new")
        await js.add_stream(StreamConfig(name="M", mirror=StreamSource(name="ORDERS")))
        await js.add_stream(StreamConfig(name="F", sources=[some]))
        for name in ("M", "F"):
            await until(lambda: copied(js, name, COUNT), name, lambda: logged(running), patience_s=180)  # noqa: B023
        assert kill_replicators(running) > 0
        await publish(js, COUNT + 1, 2 * COUNT)
        wanted = list(range(1, 2 * COUNT + 1))
        for name in ("M", "F"):
            await until(lambda: copied(js, name, 2 * COUNT), name, lambda: logged(running), patience_s=180)  # noqa: B023
            assert await numbers(js, name, 2 * COUNT) == wanted
        assert SECRET_KEY in (running.store / handover.NAME).read_text()
        assert SECRET_KEY not in running.log
        for name, value in seaweed_server.environment.items():
            monkeypatch.setenv(name, value)  # for this process, which reads the bucket now
        await until(lambda: holds(address, wanted, "M"), "folded", lambda: logged(running))
