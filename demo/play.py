"""`make serve`: an engine with the streams of the demo, left running to try things."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click

from demo.stage import DemoError, Stage, console
from demo.story import declare, publish
from headwater.replication.spark import SparkMissingError, check_java

TRY = """
[bold]Try this[/] in a second terminal (stop here with Ctrl-C; the store stays in {store},
the engine's log is {log}):

  [bold]{console}[/]                 [dim]# the console: open it in a browser[/]

  export NATS_URL={url}; alias hw=.venv/bin/headwater

  hw stream report --watch                              [dim]# lag and errors, live; Ctrl-C ends it[/]
  hw pub ORDERS.new 'ORDER {{{{Count}}}}' --count 1000      [dim]# watch it reach ARCHIVE and REPORT[/]
  hw stream info REPORT                                 [dim]# the mirror: lag, last seen[/]
  hw sub --stream REPORT --last-per-subject --terminate-at-end
  hw stream report --svg replication.svg                [dim]# the map[/]
  .venv/bin/python demo/question.py '{report}' {url}
"""


@click.command()
@click.option("--store", type=click.Path(path_type=Path), default=Path(".headwater/store"), show_default=True)
@click.option("--port", type=int, default=4222, show_default=True)
@click.option("--console-port", type=int, default=8280, show_default=True)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def play(store: Path, port: int, console_port: int, options: tuple[str, ...]) -> None:
    """Run an engine until Ctrl-C; further OPTIONS, after --, go to `headwater serve`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    directory = store.parent
    directory.mkdir(parents=True, exist_ok=True)
    stage = Stage(directory, port, store)
    try:
        stage.start("--console", "--console-port", str(console_port), *options)
        if not stage.ask("stream", "ls", "--names"):
            declare(stage)
            publish(stage)
        _say_what_to_try(stage, console_port)
        sys.exit(stage.wait())
    except DemoError as error:
        console.print(f"[bold red]{error}[/]")
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("\nstopping …")
    finally:
        stage.stop()


def _say_what_to_try(stage: Stage, console_port: int) -> None:
    try:
        check_java(os.environ)
    except SparkMissingError as missing:
        console.print(f"\n[bold yellow]ARCHIVE and REPORT stay empty:[/] {missing}")
    console.print(
        TRY.format(
            store=stage.store,
            log=stage.log_file,
            url=stage.url,
            report=stage.store / "$G" / "REPORT",
            console=f"http://127.0.0.1:{console_port}",
        )
    )


if __name__ == "__main__":
    play()
