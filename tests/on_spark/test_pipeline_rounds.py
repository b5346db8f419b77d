"""Pipelines lose and repeat nothing when their processes are killed, and they run on a cluster."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from engines import RunningEngine
from headwater.model.payload_schema import KEY, stored
from on_spark.pipeline_site import LIGHT, PATIENCE_S, PipelineSite, client_of
from on_spark.standalone import HOME, cluster_environment, standalone
from rounds import choose_seed, rounds
from waits import until

SCHEMA = stored({"type": "object", "properties": {"n": {"type": "integer"}}})
WINDOWS = """
SELECT 'windows.w' AS subject, CAST(unix_timestamp(window.start) AS BIGINT) AS start, count(*) AS messages,
       count(DISTINCT n) AS numbers
FROM (SELECT data.n AS n, timestamp_seconds(data.n) AS at FROM NUMBERS)
     WATERMARK at DELAY OF INTERVAL 1 SECOND
GROUP BY window(at, '10 seconds')
""".replace("count(DISTINCT n)", "size(collect_set(n))")
PER_ROUND = 40
VICTIMS = ("runner", "Spark", "engine", "runner and engine")


async def prepare(site: PipelineSite) -> None:
    """Create two streams and two pipelines: windows of ten numbers, and a copy."""
    await site.make("NUMBERS", "numbers.>", metadata={KEY: SCHEMA})
    await site.make("WINDOWS", "windows.>")
    await site.make("COPY", "copy.>")
    await site.add("WINDOWED", target="WINDOWS", sql=WINDOWS)
    await site.add(
        "COPIED", target="COPY", sql="SELECT 'copy.x' AS subject, CAST(data.n AS STRING) AS data FROM NUMBERS"
    )


async def audit(site: PipelineSite, count: int) -> None:
    """Close the last window, wait for both targets, and compare them with what was published."""
    await site.publish("numbers.x", {"n": count + 1000})
    await site.has("WINDOWS", count // 10)
    await site.has("COPY", count + 1)
    found = [json.loads(data) for _, data in await site.messages("WINDOWS")]
    assert sorted((each["start"], each["messages"], each["numbers"]) for each in found) == [
        (start, 10, 10) for start in range(0, count, 10)
    ]
    copied = Counter(int(data) for _, data in await site.messages("COPY"))
    assert copied == Counter([*range(count), count + 1000])


async def test_nothing_is_lost_or_repeated_when_processes_are_killed(tmp_path: Path) -> None:
    rng = random.Random(f"{choose_seed()} pipelines")
    engine = RunningEngine(tmp_path, LIGHT)
    await engine.start()
    try:
        async with client_of(engine) as site:
            await prepare(site)
            for number in range(rounds(2)):
                first = number * PER_ROUND
                publishing = asyncio.create_task(publish_slowly(site, range(first, first + PER_ROUND)))
                if rng.random() < 0.7:
                    # Else it may be killed before Spark has started.
                    await site.has("COPY", first + 1)
                await asyncio.sleep(rng.uniform(0.0, 2.0))
                victims = rng.choice(VICTIMS)
                print(
                    f"round {number}: kill {victims}; {await site.count('COPY') - first} copied", flush=True
                )
                await kill(site, victims)
                await publishing
            await audit(site, rounds(2) * PER_ROUND)
    finally:
        await engine.stop()


async def publish_slowly(site: PipelineSite, numbers: range) -> None:
    """Publish numbers in several batches of the pipelines, each once, although the engine may be killed."""
    for n in numbers:
        while True:
            try:
                data = json.dumps({"n": n}).encode()
                await site.js.publish("numbers.x", data, timeout=2, headers={"Nats-Msg-Id": str(n)})
                break
            except Exception:
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.05)


async def kill(site: PipelineSite, victims: str) -> None:
    """Kill processes as kill -9 does; return once the engine answers again."""
    runner = site.runner()
    with suppress(psutil.NoSuchProcess):
        if "Spark" in victims and runner is not None:
            for each in runner.children():
                each.send_signal(signal.SIGKILL)
        if "runner" in victims and runner is not None:
            runner.send_signal(signal.SIGKILL)
    if "engine" in victims:
        await site.engine.kill()
        await site.engine.start()

    async def answers() -> bool:
        with suppress(Exception):
            return "pipelines" in await site.request("LIST")
        return False

    await until(answers, "the engine answers", lambda: site.engine.log[-3000:], PATIENCE_S)


async def test_a_runner_submitted_to_a_cluster_runs_pipelines(tmp_path: Path) -> None:
    script = tmp_path / "runner.py"
    script.write_text("from headwater.cli.main import main\n\nmain()\n")
    engine = RunningEngine(tmp_path / "engine", (*LIGHT, "--pipelines", "submitted"))
    engine.directory.mkdir()
    await engine.start()
    try:
        async with client_of(engine) as site, standalone(tmp_path) as master:
            store_id = re.findall(r"store id (\w+)", engine.log)[0]
            command = [
                *(str(HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", "512m"),
                *("--conf", "spark.sql.shuffle.partitions=2", str(script), "pipeline", "run"),
                *("--engine", f"{store_id}={engine.store / 'pipelines.toml'}"),
            ]
            with (tmp_path / "runner.log").open("wb") as log:
                running = subprocess.Popen(
                    command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=cluster_environment()
                )
            try:
                await prepare(site)
                await site.publish("numbers.x", *({"n": n} for n in range(20)))
                await audit(site, 20)
            finally:
                for each in [
                    *psutil.Process(running.pid).children(recursive=True),
                    psutil.Process(running.pid),
                ]:
                    with suppress(psutil.NoSuchProcess):
                        each.terminate()
                await asyncio.to_thread(running.wait, 60)
    finally:
        await engine.stop()
