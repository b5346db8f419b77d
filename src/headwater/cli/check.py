"""`headwater check`: the health of a stream or of an engine for monitoring, as one line and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import click

from headwater.cli.client import AliasedGroup, Caller, client_command
from headwater.cli.engine_health import ENGINE_SUITE, judge_engine
from headwater.cli.health import EXIT_CODES, UNKNOWN, Figure, Health, Thresholds, judge
from headwater.cli.phrases import DURATION, number, read_duration
from headwater.cli.pipeline_health import PIPELINE_SUITE, judge_pipeline
from headwater.cli.render import PIPE_WIDTH, Column, Sheet, console
from headwater.cli.session import Session
from headwater.client.jetstream_api import Json
from headwater.errors import Error, SettingsError

NAMESPACE = "nats_server_check"
COUNT = click.IntRange(min=0)

_EPILOG = """\b
Examples:
  headwater check stream ARCHIVE --lag-critical 1000 --seen-critical 5m --min-sources 2
      critical if a source is 1000 messages behind or was not seen for five minutes
  headwater check stream ORDERS --msgs-warn 100 --msgs-critical 1 --format json
      warning or critical if there are too few messages
  headwater check stream REPORT --lag-critical 1 --format prometheus --outfile /var/lib/node/report.prom
      for a textfile collector

\b
Thresholds can also be in the stream's metadata, such as io.nats.monitor.lag-critical. Flags take precedence.
An upstream that reports an error is always critical. The lag of an upstream whose origin was never seen, or
is unreachable, is unknown and shown as U in the metrics.

\b
Exit codes (always 0 with --format prometheus):
  0  OK
  1  WARNING
  2  CRITICAL: a threshold is reached, or the stream or the server is not found
  3  UNKNOWN: a threshold is invalid, or the value to check is unknown
"""


_ENGINE_EPILOG = """\b
Examples:
  headwater check engine
      critical if a stream is offline or cannot be stored, or a source or mirror shows an error
  headwater check engine --format prometheus --outfile /var/lib/node/headwater.prom
      for a textfile collector

\b
It asks over NATS. The pages of --http-port say the same over HTTP, and more.
Exit codes are those of `headwater check stream`.
"""


_PIPELINE_EPILOG = """\b
Examples:
  headwater check pipeline TOTALS --lag-critical 100000
      critical if it fails or is 100,000 messages behind; warning while it is paused or starting

\b
Exit codes are those of `headwater check stream`.
"""


class UnknownHealth(click.UsageError):
    """Bad usage of a check. It exits with UNKNOWN, because 2, the usual code, means CRITICAL to a monitor."""

    exit_code = EXIT_CODES[UNKNOWN]


class MonitoringCommand(click.Command):
    """A command whose bad usage exits with UNKNOWN."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments, or exit with UNKNOWN."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise UnknownHealth(error.format_message(), ctx) from None


@click.group(cls=AliasedGroup)
def check() -> None:
    """Check streams, pipelines and engines, with the exit codes of Nagios.

    0 is OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """


def threshold(flag: str, help: str, kind: click.ParamType[Any] = COUNT) -> Callable[[Any], Any]:
    """Return the option of one threshold."""
    metavar = "DURATION" if kind is DURATION else "N"
    return click.option(flag, type=kind, metavar=metavar, help=help)


def _output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a check is shown."""
    options = (
        click.option(
            "--format", "form", type=click.Choice(["nagios", "json", "prometheus", "text"]),
            default="nagios", show_default=True, help="Output format.",
        ),
        click.option(
            "--namespace", default=NAMESPACE, show_default=True, help="Prefix of Prometheus metric names."
        ),
        click.option(
            "--outfile", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file."
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@check.command("stream", cls=MonitoringCommand, epilog=_EPILOG)
@click.argument("name", required=False)
@click.option("--stream", "named", metavar="NAME", help="The stream, instead of the argument.")
@threshold("--lag-critical", "Critical if a source or mirror lags by this many messages.")
@threshold("--seen-critical", "Critical if a source or mirror was not seen for this long.", DURATION)
@threshold(
    "--behind-critical", "Critical if the oldest uncopied message is this old (Headwater only).", DURATION
)
@threshold("--gaps-critical", "Critical if origins removed this many sequences before they were copied.")
@threshold("--min-sources", "Critical with fewer sources.")
@threshold("--max-sources", "Critical with more sources.")
@threshold("--peer-expect", "Critical unless the cluster has this many replicas.")
@threshold("--peer-lag-critical", "Critical if a replica lags by more operations.")
@threshold("--peer-seen-critical", "Critical if a replica was not seen for longer.", DURATION)
@threshold("--msgs-warn", "Warn at this many messages or fewer.")
@threshold("--msgs-critical", "Critical at this many messages or fewer.")
@threshold("--subjects-warn", "Warn at this many subjects or more; or fewer, if above --subjects-critical.")
@threshold(
    "--subjects-critical", "Critical at this many subjects or more; or fewer, if below --subjects-warn."
)
@_output_options
@client_command
def check_stream(
    caller: Caller, name: str | None, named: str | None, form: str, namespace: str, outfile: Path | None,
    **given: int | None,
) -> None:  # fmt: skip
    """Check a stream: its upstreams, its replicas, its messages and subjects."""
    stream = name or named
    if not stream:
        raise UnknownHealth("missing stream name: run `headwater check stream NAME`")

    async def work(session: Session) -> Health:
        info = await session.stream_info(stream)
        return judge(info, Thresholds.of(given, info["config"].get("metadata") or {}, read_duration))

    try:
        health = caller.run(work)
    except SettingsError as error:
        health = Health(stream, unknowns=[str(error)])
    except Error as error:
        health = Health(stream, criticals=[f"could not load info: {error}"])
    _show(health, "json" if caller.as_json else form, namespace, outfile)


@check.command("engine", cls=MonitoringCommand, epilog=_ENGINE_EPILOG)
@_output_options
@client_command
def check_engine(caller: Caller, form: str, namespace: str, outfile: Path | None) -> None:
    """Check an engine: it answers, and every stream is open, stored, and copied without an error."""
    name = caller.connection.address

    async def work(session: Session) -> Health:
        infos: list[Json] = []
        offline: dict[str, str] = {}
        async for page in session.each_page("STREAM.LIST"):
            infos += page.get("streams") or []
            offline |= dict.fromkeys(page.get("missing") or (), "it does not answer")
            offline |= page.get("offline") or {}
        return judge_engine(name, infos, offline)

    try:
        health = caller.run(work)
    except Error as error:
        health = Health(name, suite=ENGINE_SUITE, criticals=[f"the engine does not answer: {error}"])
    _show(health, "json" if caller.as_json else form, namespace, outfile)


@check.command("pipeline", cls=MonitoringCommand, epilog=_PIPELINE_EPILOG)
@click.argument("name")
@threshold("--lag-warn", "Warn if it is this many messages behind.")
@threshold("--lag-critical", "Critical if it is this many messages behind.")
@_output_options
@client_command
def check_pipeline(
    caller: Caller, name: str, lag_warn: int | None, lag_critical: int | None, form: str, namespace: str,
    outfile: Path | None,
) -> None:  # fmt: skip
    """Check a pipeline: it runs, and is not too far behind."""

    async def work(session: Session) -> Health:
        info = await session.request(f"PIPELINE.INFO.{name}")
        return judge_pipeline(info, lag_warn or 0, lag_critical or 0)

    try:
        health = caller.run(work)
    except Error as error:
        health = Health(name, suite=PIPELINE_SUITE, criticals=[f"could not load info: {error}"])
    _show(health, "json" if caller.as_json else form, namespace, outfile)


def _show(health: Health, form: str, namespace: str, outfile: Path | None) -> None:
    """Print or write the findings, and exit with their code."""
    text = rendered(health, form, namespace)
    if outfile is None:
        click.echo(text)
    else:
        _write(outfile, text + "\n")
    sys.exit(0 if form == "prometheus" else health.exit_code)


def rendered(health: Health, form: str, namespace: str = NAMESPACE) -> str:
    """Return the findings in one of the formats."""
    if form == "prometheus":
        return _prometheus(health, namespace)
    return {"nagios": _nagios, "json": _json, "text": _text}[form](health)


def _nagios(health: Health) -> str:
    """Return one line with the metrics after a vertical bar."""
    said = [health.name, *(f"Crit:{words}" for words in health.criticals)]
    said += [f"Unknown:{words}" for words in health.unknowns]
    said += [f"Warn:{words}" for words in health.warnings] + [f"OK:{words}" for words in health.oks]
    # The bar separates text from metrics, so that the text must not contain one, nor a newline.
    line = f"{health.status} {' '.join(said)}".replace("|", "/").replace("\n", " ")
    return f"{line} | {' '.join(map(_perfdata, health.figures))}" if health.figures else line


def _perfdata(figure: Figure) -> str:
    """Return `name=value;warn;critical` without thresholds that are not set."""
    digits = 4 if figure.unit == "s" else 0
    text = f"{figure.name}=U"
    if figure.value is not None:
        text = f"{figure.name}={figure.value:.{digits}f}{figure.unit}"
    if figure.warn or figure.critical:
        text += f";{figure.warn:.{digits}f}" if figure.warn else ";"
        text += f";{figure.critical:.{digits}f}" if figure.critical else ""
    return text


def _json(health: Health) -> str:
    found: dict[str, Any] = {"status": health.status, "check_suite": health.suite, "check_name": health.name}
    lists = {"warning": health.warnings, "critical": health.criticals, "unknown": health.unknowns}
    found |= {key: words for key, words in {**lists, "ok": health.oks}.items() if words}
    found["perf_data"] = [_figure_json(figure) for figure in health.figures]
    return json.dumps(found, indent=2, ensure_ascii=False)


def _figure_json(figure: Figure) -> Mapping[str, Any]:
    values = {"value": figure.value, "warning": figure.warn, "critical": figure.critical}
    whole = {key: _whole(value) for key, value in values.items()}
    return {"name": figure.name, **whole, **({"unit": figure.unit} if figure.unit else {})}


def _whole(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def _prometheus(health: Health, namespace: str) -> str:
    """Return the text format of Prometheus, ordered by metric name. Unknown values are NaN."""
    item = health.name.replace("\\", "\\\\").replace('"', ".")
    rows = [(figure.name, figure.help, f'{{item="{item}"}}', figure.value) for figure in health.figures]
    status = f'{{item="{item}",status="{health.status}"}}'
    rows.append(
        ("status_code", f"Nagios compatible status code for {health.suite}", status, health.exit_code)
    )
    lines = []
    for name, about, labels, value in sorted(rows):
        metric = f"{namespace}_{health.suite}_{name}"
        lines += [
            f"# HELP {metric} {about}",
            f"# TYPE {metric} gauge",
            f"{metric}{labels} {'NaN' if value is None else f'{value:.10g}'}",
        ]
    return "\n".join(lines)


def _text(health: Health) -> str:
    """Return human-readable tables."""
    kinds = {"OK": health.oks, "Warning": health.warnings, "Unknown": health.unknowns}
    kinds["Critical"] = health.criticals
    findings = [(kind, text) for kind, words in kinds.items() for text in words]
    headings = ["Metric", "Value", "Unit", "Critical Threshold", "Warning Threshold"]
    figures = [
        (each.name, _amount(each.value), each.unit, _amount(each.critical), _amount(each.warn), each.help)
        for each in health.figures
    ]
    wide = sys.stdout.isatty() or os.environ.get("COLUMNS")
    out = console(StringIO(), None if wide else PIPE_WIDTH)
    out.print(f"{health.name}: {health.status}\n")
    if findings:
        out.print(Sheet("Status Detail", [Column("Status"), Column("Message", wraps=True)], findings))
    if figures:
        columns = [*map(Column, headings), Column("Description", wraps=True)]
        out.print(Sheet("Check Metrics", columns, figures))
    assert isinstance(out.file, StringIO)
    return out.file.getvalue().rstrip("\n")


def _amount(value: float | None) -> str:
    if value is None:
        return "unknown"
    return number(int(value)) if value == int(value) else f"{value:.2f}"


def _write(path: Path, text: str) -> None:
    """Replace the file atomically: a collector must never read part of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}") from None
