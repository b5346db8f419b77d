"""A replicator as a process: killed, stopped, without its JVM, and on its own cluster."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import psutil

from on_spark.replicators import replicator
from on_spark.standalone import HOME, standalone
from replication.fake_engine import FakeEngine, serving
from replication.works import brought, file_of, tail_of, work_of
from servers import nats_server
from table.samples import message


async def test_a_killed_replicator_loses_nothing_and_the_next_one_copies_it(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.refuse = lambda receipt: ""
    async with nats_server() as server, serving(server.client_url, engine):
        async with replicator(server.client_url, tmp_path / "log", "--master", "local[2]") as running:
            engine.offer(work_of(id="a", stop_seq=3, tail=tail_of([message(1)])))
            assert brought(await engine.receipt()) == [message(1)]
            running.kill()
            engine.offer(work_of(id="b", stop_seq=3, tail=tail_of([message(2)])))
            running.start()
            assert brought(await engine.receipt()) == [message(2)]
            running.signal(signal.SIGTERM)
            assert await running.ended() == 0
            assert running.log.count("Spark is running") == 2
            # Workers may complain about being left alone: of the one that was killed, and while Spark ends.
            last_run = running.log.rpartition("Spark is running")[2]
            assert "Traceback" not in last_run.partition("stopping Spark")[0]
            assert "stopping Spark" in last_run


async def test_a_replicator_whose_java_died_ends_with_one_sentence(tmp_path: Path) -> None:
    engine = FakeEngine()
    async with nats_server() as server, serving(server.client_url, engine):
        async with replicator(server.client_url, tmp_path / "log", "--master", "local[1]") as running:
            while engine.plans_asked == 0:
                await asyncio.sleep(0.05)
            running.java().kill()
            for name in "abcdefgh":
                engine.offer(work_of(id=name, stop_seq=3, tail=tail_of([message(1)])))
            assert await running.ended() == 1
            assert "headwater: Spark has ended" in running.log


async def test_a_cluster_runs_the_transfers_however_the_replicator_is_submitted(tmp_path: Path) -> None:
    script = tmp_path / "replicator.py"
    script.write_text("from headwater.cli.main import main\n\nmain()\n")
    messages = [message(seq) for seq in range(1, 20_001)]
    file = file_of(tmp_path / "table", messages)
    async with nats_server() as server, standalone(tmp_path) as master:
        submit = (
            str(HOME / "bin" / "spark-submit"),
            "--master",
            master,
            "--driver-memory",
            "512m",
            str(script),
        )
        ways = {
            "command": ((sys.executable, "-m", "headwater"), ("--master", master)),
            "submit": (submit, ()),
        }
        for way, (program, options) in ways.items():
            engine = FakeEngine()
            engine.offer(
                work_of(id=f"{way} file", stop_seq=20_000, files=(file,), staging=str(tmp_path / "staging")),
                work_of(id=f"{way} tail", stop_seq=1, tail=tail_of([message(1)])),
            )
            log = tmp_path / f"{way}.log"
            async with serving(server.client_url, engine):
                async with replicator(server.client_url, log, *options, program=program) as running:
                    assert brought(await engine.receipt(), tmp_path / "staging") == messages
                    assert brought(await engine.receipt()) == [message(1)]
                    started = running.descendants()
                    running.signal(signal.SIGTERM)
                    await running.ended()
                    # One that was submitted is a child of the JVM that was stopped.
                    assert (await asyncio.to_thread(psutil.wait_procs, started, 60))[1] == []
    said = (tmp_path / "cluster.log").read_text()
    assert said.count("Registered app headwater-replicator") == 2
