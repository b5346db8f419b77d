"""Plans as real Spark jobs: every work returns a receipt, also if a task fails or crashes."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from doors import connected
from headwater.replication import spark
from headwater.replication.driver import Driver
from headwater.replication.exchange import Exchange
from headwater.replication.spark import SparkCluster
from headwater.replication.work import FileRange
from headwater.replication.worker.transfer import transfer_all
from replication.fake_engine import SECRET, STORE_ID, FakeEngine, serving
from replication.origins import site_of
from replication.works import brought, expected_of, file_of, removed_of, tail_of, work_of
from servers import nats_server
from table.samples import message


def test_a_plan_of_many_kinds_of_work_is_one_job(cluster: SparkCluster, tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 30_001)]
    file = file_of(tmp_path, messages)
    staged = work_of(id="staged", stop_seq=30_000, files=(file,), staging=str(tmp_path / "staging"))
    filtered = work_of(id="filtered", stop_seq=500, files=(file,), filters=("orders.3",))
    tails = [work_of(id=f"t{seq}", stop_seq=seq, tail=tail_of([message(seq)])) for seq in range(1, 20)]
    broken = work_of(id="broken", stop_seq=3, files=(FileRange(str(tmp_path / "gone"), 0, 1, 3),))
    works = [tails[0], staged, *tails[1:], broken, filtered]
    receipts = cluster.run(works)
    assert [receipt.work for receipt in receipts] == [work.id for work in works]
    by_work = {receipt.work: receipt for receipt in receipts}
    assert (tmp_path / "staging" / by_work["staged"].path).exists()
    assert brought(by_work["staged"], tmp_path / "staging") == messages
    assert brought(by_work["filtered"]) == expected_of(filtered, messages)
    assert all(brought(by_work[f"t{seq}"]) == [message(seq)] for seq in range(1, 20))
    assert "was replaced" in by_work["broken"].error


def test_spark_reads_what_a_job_spliced(cluster: SparkCluster, tmp_path: Path) -> None:
    messages = [message(seq) for seq in range(1, 30_001)]
    work = work_of(
        stop_seq=30_000,
        files=(file_of(tmp_path, messages[:20_000]), file_of(tmp_path, messages[20_000:], 1, "s2")),
        removed=removed_of([25_000]),
        source_header=("O", ">", ">", "I"),
        adoptive=True,
        staging=str(tmp_path / "staging"),
    )
    (receipt,) = cluster.run([work])
    (file,) = receipt.adopted
    frame = SparkSession.builder.getOrCreate().read.parquet(str(tmp_path / "staging" / file.name))
    found = [tuple(row) for row in frame.select("offset", "subject", "data").orderBy("offset").collect()]
    wanted = [m for m in messages if m.seq != 25_000]
    assert found == [(number, m.subject.decode(), m.data) for number, m in enumerate(wanted)]
    assert frame.filter("data = 'payload 17'").count() == 1


def test_a_task_that_takes_its_worker_down_stops_no_other(cluster: SparkCluster) -> None:
    def transfer_or_die(works: list[bytes]) -> list[bytes]:
        if any(b"deadly" in work for work in works):
            os._exit(7)
        return transfer_all(works)

    tails = [work_of(id=name, stop_seq=2, tail=tail_of([message(1)])) for name in ("kind", "deadly", "fair")]
    # A function inside a function travels to the executors whole, not by its name.
    with patch.object(spark, "transfer_all", transfer_or_die):
        kind, deadly, fair = cluster.run(tails)
    assert brought(kind) == brought(fair) == [message(1)]
    assert deadly.error.startswith("Spark could not run the transfer: ")
    assert "\n" not in deadly.error


async def test_an_engine_and_an_origin_are_served_over_nats(cluster: SparkCluster, tmp_path: Path) -> None:
    engine = FakeEngine()
    async with nats_server() as server, site_of("nats-server", tmp_path) as site:
        await site.make(allow_direct=True)
        for seq in range(1, 201):
            await site.publish(f"orders.{seq % 2}", b"%d" % seq)
        stored = await site.remember()
        engine.offer(
            work_of(id="remote", stop_seq=200, origin=site.origin(), filters=("orders.1",), mirrored=True),
            work_of(id="tail", stop_seq=2, tail=tail_of([message(1), message(2)])),
        )
        connection = await connected(server.client_url)
        async with serving(server.client_url, engine):
            driving = asyncio.create_task(
                Driver(Exchange(connection, STORE_ID, secret=lambda: SECRET), cluster).drive()
            )
            assert brought(await engine.receipt()) == [m for m in stored if m.subject == b"orders.1"]
            assert brought(await engine.receipt()) == [message(1), message(2)]
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
        await connection.close()


def test_jobs_of_several_threads_run_beside_each_other(cluster: SparkCluster) -> None:
    tails = [work_of(id=str(n), stop_seq=3, tail=tail_of([message(n)])) for n in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(cluster.run, [[work] for work in tails]))
    assert [brought(receipt) for (receipt,) in found] == [[message(1)], [message(2)]]
