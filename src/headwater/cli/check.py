"""`headwater check stream`: a stream's health for monitoring, as one line and an exit code."""

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
from headwater.cli.health import EXIT_CODES, UNKNOWN, Figure, Health, Thresholds, judge
from headwater.cli.phrases import DURATION, number, read_duration
from headwater.cli.render import PIPE_WIDTH, Column, Sheet, console
from headwater.cli.session import Session
from headwater.errors import Error, SettingsError

NAMESPACE = "nats_server_check"
SUITE = "stream"
COUNT = click.IntRange(min=0)

_EPILOG = """\b
Examples:
  headwater check stream ARCHIVE --lag-critical 1000 --seen-critical 5m --min-sources 2
      critical when a source is 1000 messages behind or was not seen for five minutes
  headwater check stream ORDERS --msgs-warn 100 --msgs-critical 1 --format json
      trouble when there are too few messages
  headwater check stream REPORT --lag-critical 1 --format prometheus --outfile /var/lib/node/report.prom
      for a textfile collector

\b
Thresholds may stand in the stream's metadata, as io.nats.monitor.lag-critical; a flag overrules them. An
upstream that reports an error is critical whatever the thresholds. The lag of one whose origin was never
seen, or went away, is unknown, and shows as U in the figures.

\b
Exit codes (always 0 with --format prometheus):
  0  OK
  1  WARNING
  2  CRITICAL: a threshold is reached, or the stream or the server cannot be found
  3  UNKNOWN: a threshold cannot be read, or what it is about is not known
"""


class UnknownHealth(click.UsageError):
    """What was asked cannot be answered; 2, the code of other bad usage, would say CRITICAL to a monitor."""

    exit_code = EXIT_CODES[UNKNOWN]


class MonitoringCommand(click.Command):
    """A command whose bad usage is UNKNOWN to a monitor."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments left over, or refuse with the code of UNKNOWN."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise UnknownHealth(error.format_message(), ctx) from None


@click.group(cls=AliasedGroup)
def check() -> None:
    """Check streams for monitoring, with the exit codes of Nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""


def threshold(flag: str, help: str, kind: click.ParamType[Any] = COUNT) -> Callable[[Any], Any]:
    """Return the option of one threshold."""
    metavar = "DURATION" if kind is DURATION else "N"
    return click.option(flag, type=kind, metavar=metavar, help=help)


@check.command("stream", cls=MonitoringCommand, epilog=_EPILOG)
@click.argument("name", required=False)
@click.option("--stream", "named", metavar="NAME", help="The stream, when not given as argument.")
@threshold("--lag-critical", "Critical when a source or mirror is so many messages behind.")
@threshold("--seen-critical", "Critical when a source or mirror was not seen for so long.", DURATION)
@threshold(
    "--behind-critical", "Critical when what is to be copied is so old (from Headwater only).", DURATION
)
@threshold("--gaps-critical", "Critical when so many sequences were gone at origins before they were copied.")
@threshold("--min-sources", "Critical with fewer sources.")
@threshold("--max-sources", "Critical with more sources.")
@threshold("--peer-expect", "Critical unless there are so many cluster replicas.")
@threshold("--peer-lag-critical", "Critical when a replica is more operations behind.")
@threshold("--peer-seen-critical", "Critical when a replica was not seen for longer.", DURATION)
@threshold("--msgs-warn", "Warn with so many messages or fewer.")
@threshold("--msgs-critical", "Critical with so many messages or fewer.")
@threshold("--subjects-warn", "Warn with so many subjects or more (fewer when above --subjects-critical).")
@threshold("--subjects-critical", "Critical with so many subjects or more (fewer when below the other).")
@click.option(
    "--format", "form", type=click.Choice(["nagios", "json", "prometheus", "text"]), default="nagios",
    show_default=True, help="How to say it.",
)  # fmt: skip
@click.option("--namespace", default=NAMESPACE, show_default=True, help="Prefix of Prometheus's names.")
@click.option("--outfile", type=click.Path(dir_okay=False, path_type=Path), help="Write there instead.")
@client_command
def check_stream(
    caller: Caller, name: str | None, named: str | None, form: str, namespace: str, outfile: Path | None,
    **given: int | None,
) -> None:  # fmt: skip
    """Check a stream: its upstreams, its peers, and how much it holds."""
    stream = name or named
    if not stream:
        raise UnknownHealth("which stream? Say `headwater check stream NAME`")

    async def work(session: Session) -> Health:
        info = await session.stream_info(stream)
        return judge(info, Thresholds.of(given, info["config"].get("metadata") or {}, read_duration))

    try:
        health = caller.run(work)
    except SettingsError as error:
        health = Health(stream, unknowns=[str(error)])
    except Error as error:
        health = Health(stream, criticals=[f"could not load info: {error}"])
    form = "json" if caller.as_json else form
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
    """Return one line, its figures after a bar."""
    said = [health.name, *(f"Crit:{words}" for words in health.criticals)]
    said += [f"Unknown:{words}" for words in health.unknowns]
    said += [f"Warn:{words}" for words in health.warnings] + [f"OK:{words}" for words in health.oks]
    # The bar parts words from figures: no word may hold one, nor break the line.
    line = f"{health.status} {' '.join(said)}".replace("|", "/").replace("\n", " ")
    return f"{line} | {' '.join(map(_perfdata, health.figures))}" if health.figures else line


def _perfdata(figure: Figure) -> str:
    """Return `name=value;warn;critical`, thresholds that ask nothing left out."""
    digits = 4 if figure.unit == "s" else 0
    text = f"{figure.name}=U"
    if figure.value is not None:
        text = f"{figure.name}={figure.value:.{digits}f}{figure.unit}"
    if figure.warn or figure.critical:
        text += f";{figure.warn:.{digits}f}" if figure.warn else ";"
        text += f";{figure.critical:.{digits}f}" if figure.critical else ""
    return text


def _json(health: Health) -> str:
    found: dict[str, Any] = {"status": health.status, "check_suite": SUITE, "check_name": health.name}
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
    """Return the text format of Prometheus, metrics in the order of their names; NaN is not known."""
    item = health.name.replace("\\", "\\\\").replace('"', ".")
    rows = [(figure.name, figure.help, f'{{item="{item}"}}', figure.value) for figure in health.figures]
    status = f'{{item="{item}",status="{health.status}"}}'
    rows.append(("status_code", f"Nagios compatible status code for {SUITE}", status, health.exit_code))
    lines = []
    for name, about, labels, value in sorted(rows):
        metric = f"{namespace}_{SUITE}_{name}"
        lines += [
            f"# HELP {metric} {about}",
            f"# TYPE {metric} gauge",
            f"{metric}{labels} {'NaN' if value is None else f'{value:.10g}'}",
        ]
    return "\n".join(lines)


def _text(health: Health) -> str:
    """Return tables for people."""
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
    """Replace the file as a whole: a collector must never read half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}") from None
