"""The demo end to end: two streams, an archive of both, its mirror, a kill, and an SQL query."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nats
from nats.errors import Error as NatsError

from demo.stage import DemoError, Stage, console, heading, proven, say
from headwater.replication.spark import SparkMissingError, check_java

KEPT = Path(".headwater/demo")
"""Where the drawing is kept after the demo."""
EXIT_WITHOUT_JAVA = 3
EXIT_INTERRUPTED = 130
AUDITED = 500


def first_line(out: str) -> str:
    """Return the line that says what was done."""
    return out.strip().splitlines()[0]


def section(title: str, out: str) -> str:
    """Return one section of a long page."""
    lines = out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(title))
    length = next((n for n, line in enumerate(lines[start + 2 :]) if not line.strip()), len(lines))
    return "\n".join(["…", *lines[start : start + 2 + length], "…"])


def declare(stage: Stage) -> None:
    """Declare the four streams."""
    stage.run("stream", "add", "ORDERS", "--subjects", "ORDERS.>", "--storage", "memory", "--defaults",
              show=first_line)  # fmt: skip
    stage.run("stream", "add", "RETURNS", "--subjects", "RETURNS.>", "--storage", "memory", "--defaults",
              show=first_line)  # fmt: skip
    stage.run("stream", "add", "ARCHIVE", "--source", "ORDERS", "--source", "RETURNS",
              "--subjects", "ARCHIVE.>", "--defaults", show=first_line)  # fmt: skip
    stage.run("stream", "add", "REPORT", "--mirror", "ARCHIVE", "--max-age", "30d", "--defaults",
              show=first_line)  # fmt: skip


def publish(stage: Stage) -> None:
    """Publish to the two origins, and to the archive itself."""
    stage.run("pub", "ORDERS.new", "ORDER {{Count}}", "--count", "100", "--jetstream")
    stage.run("pub", "RETURNS.new", "RETURN {{Count}}", "--count", "100", "--jetstream")
    stage.run("pub", "ARCHIVE.note", "published here, not copied", "--jetstream")


def compare(stage: Stage) -> int:
    """Show one message of both streams, then compare all; return how many there are."""
    last = int(stage.ask("stream", "state", "ARCHIVE")["last_seq"])
    for stream in ("ARCHIVE", "REPORT"):
        stage.run("stream", "get", stream, str(last))
    everything = [stage.lines("sub", "--stream", stream, "--all", "--terminate-at-end") for stream in
                  ("ARCHIVE", "REPORT")]  # fmt: skip
    archive, report = (
        [{key: row.get(key) for key in ("seq", "time", "subject", "headers", "data")} for row in rows]
        for rows in everything
    )
    if archive != report or len(archive) != last or None in (archive[0]["seq"], archive[0]["time"]):
        raise DemoError("REPORT differs from ARCHIVE")
    proven(f"all {last} messages: the same sequences, timestamps, subjects, headers and data")
    return last


async def publish_until_killed(stage: Stage) -> int:
    """Publish to the archive, kill the engine meanwhile, return the last acknowledged sequence."""

    async def ignore(error: Exception) -> None:
        """The connection breaks: that is the point."""

    client = await nats.connect(stage.url, allow_reconnect=False, error_cb=ignore, connect_timeout=60)
    stream, acknowledged = client.jetstream(timeout=60), 0

    async def publisher() -> None:
        nonlocal acknowledged
        try:
            while True:
                acks = await asyncio.gather(
                    *(stream.publish("ARCHIVE.audit", b"in flight") for _ in range(50))
                )
                acknowledged = max(acknowledged, *(ack.seq for ack in acks))
        except NatsError:
            pass

    begun = int(stage.ask("stream", "state", "ARCHIVE")["last_seq"])
    publishing = asyncio.create_task(publisher())
    while acknowledged < begun + AUDITED:
        await asyncio.sleep(0.005)
    stage.kill()
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    await client.close()
    return acknowledged


def restart(stage: Stage, acknowledged: int) -> int:
    """Restart the engine and check that nothing is missing; return the archive's last sequence."""
    began = time.monotonic()
    stage.start()
    took = time.monotonic() - began
    state = stage.ask("stream", "state", "ARCHIVE")
    last = int(state["last_seq"])
    if state["messages"] != last or last < acknowledged:
        raise DemoError(f"{acknowledged} messages were acknowledged, but {state['messages']} are stored")
    proven(
        f"acknowledged up to {acknowledged}, stored up to {last}: nothing is lost; restarted in {took:.1f} s"
    )
    return last


def question(stage: Stage) -> None:
    """Run a query on Spark."""
    script = Path(__file__).parent / "question.py"
    report = stage.store / "$G" / "REPORT"
    console.print(f"[dim]$[/] [bold]python demo/{script.name} '{report}' {stage.url}[/]")
    console.print(script.read_text().partition('"""\n\n')[2].strip(), markup=False)
    sys.stdout.flush()
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (stage.directory / "spark.log").open("w+") as log:
        asked = subprocess.run(
            [sys.executable, str(script), str(report), stage.url], env=environ, stdout=subprocess.PIPE,
            stderr=log, text=True,
        )  # fmt: skip
        log.seek(0)
        if asked.returncode:
            raise DemoError(f"the Spark query failed:\n{log.read()}")
    print("\n" + asked.stdout.strip())


def tell(stage: Stage) -> None:
    """Run the demo, step by step."""
    heading(1, "Start an engine with its own nats-server")
    stage.start()
    console.print(f"[dim]$[/] [bold]export NATS_URL={stage.url}[/]")

    heading(2, "ORDERS and RETURNS in memory, ARCHIVE sources both, REPORT mirrors ARCHIVE")
    declare(stage)
    stage.run("stream", "report", "--name")

    heading(3, "Publish 100 orders, 100 returns, and one message to ARCHIVE itself")
    publish(stage)
    say("Spark starts with the first source or mirror. This takes about ten seconds, once …")
    stage.wait_for("… and REPORT has everything", "REPORT", 201)

    heading(4, "Both reports again, and the replication graph")
    drawing = KEPT / "replication.svg"
    stage.run("stream", "report", "--name", "--svg", str(drawing))
    stage.run("stream", "info", "REPORT", show=lambda out: section("Mirror Information", out))

    heading(5, "REPORT has the same sequences and timestamps as ARCHIVE")
    compare(stage)

    heading(6, "Kill the engine with kill -9 while a client publishes")
    acknowledged = asyncio.run(publish_until_killed(stage))
    last = restart(stage, acknowledged)
    say("(ORDERS and RETURNS are memory streams: they start empty, as in JetStream.)")
    stage.wait_for("The mirror has continued where it stopped, and has caught up", "REPORT", last)

    heading(7, "Query REPORT with Spark SQL")
    question(stage)
    stage.stop()


def streams_alone(reason: str) -> int:
    """Show streams, which need no Java, and return the exit code for a missing Java."""
    console.print(f"[bold yellow]Sources, mirrors and Spark SQL are skipped.[/] {reason}\n")
    subprocess.run([sys.executable, str(Path(__file__).parent / "streams.py")], check=True)
    console.print(f"\n[bold yellow]Shown: streams. Skipped: replication.[/] {reason}; then: make demo")
    return EXIT_WITHOUT_JAVA


def main() -> int:
    """Run the demo and return its exit code."""
    try:
        check_java(os.environ)
    except SparkMissingError as missing:
        return streams_alone(str(missing))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    KEPT.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    stage = Stage(directory)
    try:
        tell(stage)
    except DemoError as error:
        console.print(f"\n[bold red]The demo ends here:[/] {error}", markup=True)
        return 1
    except KeyboardInterrupt:
        say("\nstopped; nothing is left behind")
        return EXIT_INTERRUPTED
    finally:
        stage.stop()
        shutil.rmtree(directory, ignore_errors=True)
    say(f"\nThat took {time.monotonic() - began:.0f} s. [bold]make serve[/] runs the same to play with,")
    say("and opens the console on it: [bold]http://127.0.0.1:8280[/].")
    return 0


if __name__ == "__main__":
    sys.exit(main())
