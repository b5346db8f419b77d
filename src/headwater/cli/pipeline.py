"""`headwater pipeline`: declare streaming queries from streams to streams, show, pause and remove them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from headwater.cli import ask
from headwater.cli.client import AliasedGroup, Caller, client_command, group_flags
from headwater.cli.phrases import DURATION, moment, number, read_moment
from headwater.cli.pipeline_run import run
from headwater.cli.render import Column, LabelledRows, Sheet, show, show_json
from headwater.cli.session import Json
from headwater.errors import SettingsError
from headwater.model.times import SECOND, format_time
from headwater.wire.pipeline import APPEND, UPDATE

CHECK_S = 300.0
"""How long to wait for a check: Spark may have to be started first."""
STOP_S = 30.0
MOST_SQL = 1 << 20

_EPILOG = """\b
Examples:
  headwater pipeline add BIG --sql-file big.sql --target BIG_ORDERS
      run the SELECT in big.sql; the streams that it names are its inputs
  headwater pipeline add TOTALS --target TOTALS --subject totals.region --output update \\
      --sql "SELECT data.region, sum(data.amount) AS total FROM ORDERS GROUP BY data.region"
      a running total for each region, as JSON on one subject
  headwater pipeline add ENRICH --function shop.flows:enrich --input ORDERS --input USERS --target ENRICHED
      a Python function that the operator allows with --pipeline-functions
  headwater pipeline ls
  headwater pipeline info BIG
  headwater pipeline pause BIG
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
@group_flags
def pipeline() -> None:
    """Run streaming queries from streams to streams on Spark, each message once."""


@pipeline.command()
@click.argument("name")
@click.option("--sql", help="The query: a SELECT over streams.")
@click.option(
    "--sql-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the query."
)
@click.option("--function", metavar="MODULE:NAME", help="A Python function, instead of SQL.")
@click.option(
    "--input", "inputs", multiple=True, metavar="STREAM", help="A stream that the function reads; repeatable."
)
@click.option("--target", required=True, metavar="STREAM", help="The stream that gets the results.")
@click.option("--subject", help="Subject of all messages, if the query has no column subject.")
@click.option("--output", type=click.Choice([APPEND, UPDATE]), default=APPEND, show_default=True,
              help="Write final rows, or each change of a row.")  # fmt: skip
@click.option("--every", type=DURATION, default="1s", show_default=True, help="How often a batch may start.")
@click.option(
    "--max-messages", type=int, default=50_000, show_default=True, help="Messages of a stream in one batch."
)
@click.option(
    "--start-sequence", type=int, metavar="SEQ", help="First sequence to read; default: all messages."
)
@click.option("--start-time", metavar="TIME", help="Read messages stored at or after a time.")
@click.option("--new", is_flag=True, help="Read only messages stored from now on.")
@client_command
def add(caller: Caller, name: str, **given: Any) -> None:
    """Add a pipeline.

    Spark checks the query first. If the engine has not used Spark yet, this takes some seconds.
    """
    request = _request(given)
    if not caller.as_json:
        click.echo("Spark checks the query…", err=True)
    answer = caller.run(lambda session: session.request(f"PIPELINE.CREATE.{name}", request, wait=CHECK_S))
    _show(caller, answer)


@pipeline.command("ls")
@client_command
def list_(caller: Caller) -> None:
    """List pipelines with their state, lag and rate."""
    found = caller.run(lambda session: session.request("PIPELINE.LIST"))["pipelines"]
    if caller.as_json:
        show_json(found)
    elif not found:
        click.echo("No Pipelines defined")
    else:
        show(_sheet(found))
        for each in found:
            if each["problem"]:
                click.echo(f"{each['config']['name']}: {each['problem']}")


@pipeline.command()
@click.argument("name")
@client_command
def info(caller: Caller, name: str) -> None:
    """Show a pipeline: its query, its progress, and why it fails if it does."""
    _show(caller, caller.run(lambda session: session.request(f"PIPELINE.INFO.{name}")))


@pipeline.command()
@click.argument("name")
@client_command
def pause(caller: Caller, name: str) -> None:
    """Stop a pipeline, and keep its state."""
    _show(caller, caller.run(lambda session: session.request(f"PIPELINE.PAUSE.{name}", wait=STOP_S)))


@pipeline.command()
@click.argument("name")
@client_command
def resume(caller: Caller, name: str) -> None:
    """Start a paused pipeline where it stopped."""
    _show(caller, caller.run(lambda session: session.request(f"PIPELINE.RESUME.{name}", wait=STOP_S)))


@pipeline.command()
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def rm(caller: Caller, name: str, force: bool) -> None:
    """Remove a pipeline with its state. Messages that it wrote stay."""
    if ask.allowed(f"Really remove Pipeline {name} with its state", force=force):
        answer = caller.run(lambda session: session.request(f"PIPELINE.DELETE.{name}", wait=STOP_S))
        if caller.as_json:
            show_json(answer)


pipeline.add_command(run)
pipeline.alias("add", "create", "new")
pipeline.alias("ls", "list")
pipeline.alias("rm", "delete", "del")


def _request(given: Json) -> Json:
    """Return the request of `add`."""
    file = given["sql_file"]
    if given["sql"] and file:
        raise SettingsError("--sql and --sql-file exclude each other: pass one of them")
    if file and file.stat().st_size > MOST_SQL:
        raise SettingsError(f"{file} is too large for a query")
    starts = [given[each] for each in ("start_sequence", "start_time", "new") if given[each]]
    if len(starts) > 1:
        raise SettingsError("pass one of --start-sequence, --start-time and --new")
    try:
        sql = file.read_text() if file else given["sql"] or ""
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8 text") from None
    start_time = read_moment(given["start_time"]) if given["start_time"] else ""
    return {
        "target": given["target"],
        "sql": sql,
        "function": given["function"] or "",
        "inputs": list(given["inputs"]),
        "subject": given["subject"] or "",
        "output": given["output"],
        "every_s": given["every"] / SECOND,
        "max_messages": given["max_messages"],
        "start_seq": given["start_sequence"] or 0,
        "start_time": format_time(time.time_ns()) if given["new"] else start_time,
    }


def _sheet(found: list[Json]) -> Sheet:
    columns = (
        Column("Name", wraps=True),
        Column("State"),
        Column("Inputs", wraps=True, gives_way=3),
        Column("Target", wraps=True),
        Column("Lag"),
        Column("Messages/s", gives_way=2),
        Column("Batch", gives_way=4),
    )
    rows = [
        [
            each["config"]["name"],
            each["state"],
            ", ".join(each["config"]["inputs"]),
            each["config"]["target"],
            _known(each["lag"]),
            number(round(each["rate"])),
            f"{each['batch_ms']} ms" if each["batch"] >= 0 else "",
        ]
        for each in found
    ]
    return Sheet("Pipelines", columns, rows)


def _show(caller: Caller, answer: Json) -> None:
    if caller.as_json:
        show_json(answer)
        return
    config = answer["config"]
    rows = LabelledRows(f"Information for Pipeline {config['name']} created {moment(config['created'])}")
    about = [
        ("Inputs", ", ".join(config["inputs"])),
        ("Target", config["target"]),
        ("Subject", config["subject"]),
        ("Function", config["function"]),
        ("Output", config["output"]),
        ("Every", f"{config['every_s']:g} s"),
        ("Starts at", config["start_time"] or (number(config["start_seq"]) if config["start_seq"] else "")),
        ("Query Id", config["id"]),
    ]
    rows.section("").extend((label, text) for label, text in about if text)
    state = rows.section("State")
    state += [("State", answer["state"])]
    if answer["problem"]:
        state.append(("Problem", answer["problem"]))
    state += [("Lag", _known(answer["lag"])), ("Rate", f"{answer['rate']:,.0f} messages/s")]
    for each in answer["inputs"]:
        read = _known(each["read_seq"])
        state.append((f"Read of {each['stream']}", f"{read}, {_known(each['lag'])} behind"))
    if answer["batch"] >= 0:
        state.append(("Last Batch", f"{number(answer['batch'])} in {number(answer['batch_ms'])} ms"))
    if answer["state_rows"]:
        state.append(("Rows of State", number(answer["state_rows"])))
    if answer["watermark"]:
        state.append(("Watermark", answer["watermark"]))
    show(rows)
    if config["sql"]:
        click.echo()
        click.echo(config["sql"].strip())


def _known(value: int | None) -> str:
    return "unknown" if value is None else number(value)
