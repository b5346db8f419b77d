"""`headwater check`: every format against fixed findings, and real streams against real thresholds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli.check import rendered
from headwater.cli.health import Figure, Health
from jetstreams import Shell

# As `nats server check stream` writes it for the same stream.
NAGIOS = (
    "WARNING ARCHIVE Warn:3 messages OK:1 sources OK:Mirror X | messages=3;10 sources=1;1;2 "
    "lag=0;;10 active=1.5000s;;300.0000"
)
PROMETHEUS = """\
# HELP nats_server_check_stream_active Time since
# TYPE nats_server_check_stream_active gauge
nats_server_check_stream_active{item="ARCHIVE"} 1.5
# HELP nats_server_check_stream_lag Behind
# TYPE nats_server_check_stream_lag gauge
nats_server_check_stream_lag{item="ARCHIVE"} 0
# HELP nats_server_check_stream_messages Messages
# TYPE nats_server_check_stream_messages gauge
nats_server_check_stream_messages{item="ARCHIVE"} 3
# HELP nats_server_check_stream_sources Sources
# TYPE nats_server_check_stream_sources gauge
nats_server_check_stream_sources{item="ARCHIVE"} 1
# HELP nats_server_check_stream_status_code Nagios compatible status code for stream
# TYPE nats_server_check_stream_status_code gauge
nats_server_check_stream_status_code{item="ARCHIVE",status="WARNING"} 1"""
TEXT = """\
ARCHIVE: WARNING

╭──────────────────────╮
│    Status Detail     │
├─────────┬────────────┤
│ Status  │ Message    │
├─────────┼────────────┤
│ OK      │ 1 sources  │
│ OK      │ Mirror X   │
│ Warning │ 3 messages │
╰─────────┴────────────╯
╭────────────────────────────────────────────────────────────────────────────────╮
│                                 Check Metrics                                  │
├──────────┬───────┬──────┬────────────────────┬───────────────────┬─────────────┤
│ Metric   │ Value │ Unit │ Critical Threshold │ Warning Threshold │ Description │
├──────────┼───────┼──────┼────────────────────┼───────────────────┼─────────────┤
│ messages │ 3     │      │ 0                  │ 10                │ Messages    │
│ sources  │ 1     │      │ 2                  │ 1                 │ Sources     │
│ lag      │ 0     │      │ 10                 │ 0                 │ Behind      │
│ active   │ 1.50  │ s    │ 300                │ 0                 │ Time since  │
╰──────────┴───────┴──────┴────────────────────┴───────────────────┴─────────────╯"""


@pytest.fixture
def findings() -> Health:
    figures = [
        Figure("messages", 3, "Messages", 10),
        Figure("sources", 1, "Sources", 1, 2),
        Figure("lag", 0, "Behind", critical=10),
        Figure("active", 1.5, "Time since", critical=300, unit="s"),
    ]
    return Health("ARCHIVE", oks=["1 sources", "Mirror X"], warnings=["3 messages"], figures=figures)


@pytest.mark.parametrize(("form", "expected"), [("nagios", NAGIOS), ("prometheus", PROMETHEUS)])
def test_formats_for_machines(findings: Health, form: str, expected: str) -> None:
    assert rendered(findings, form) == expected


def test_the_format_for_people(findings: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = "\n".join(line.rstrip() for line in rendered(findings, "text").splitlines())
    assert shown == TEXT


def test_the_format_for_people_wraps_descriptions_when_narrow(
    findings: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, rendered(findings, "text").splitlines())) <= 80


def test_json_has_the_names_of_the_nats_command(findings: Health) -> None:
    assert json.loads(rendered(findings, "json")) == {
        "status": "WARNING",
        "check_suite": "stream",
        "check_name": "ARCHIVE",
        "warning": ["3 messages"],
        "ok": ["1 sources", "Mirror X"],
        "perf_data": [
            {"name": "messages", "value": 3, "warning": 10, "critical": 0},
            {"name": "sources", "value": 1, "warning": 1, "critical": 2},
            {"name": "lag", "value": 0, "warning": 0, "critical": 10},
            {"name": "active", "value": 1.5, "warning": 0, "critical": 300, "unit": "s"},
        ],
    }


def test_a_figure_that_is_not_known_says_so_in_every_format() -> None:
    health = Health("A", figures=[Figure("lag", None, "Behind", critical=10)])
    assert rendered(health, "nagios").endswith("| lag=U;;10")
    assert json.loads(rendered(health, "json"))["perf_data"][0]["value"] is None
    assert 'stream_lag{item="A"} NaN' in rendered(health, "prometheus")
    assert "unknown" in rendered(health, "text")


def test_no_word_can_pass_for_a_figure() -> None:
    assert rendered(Health("A", criticals=["a|b\nc"]), "nagios") == "CRITICAL A Crit:a/b c"


def test_a_name_cannot_break_out_of_its_label() -> None:
    assert 'item="a.b"' in rendered(Health('a"b'), "prometheus")


def test_a_stream_is_checked_against_its_thresholds(shell: Shell, stream: str) -> None:
    ran = shell("check", "stream", stream, "--msgs-warn", "2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"OK {stream} OK:3 messages OK:0 sources | messages=3;2 sources=0\n"
    ran = shell("check", "stream", "--stream", stream, "--msgs-warn", "3", "--json")
    assert (ran.code, ran.json["status"], ran.json["warning"]) == (1, "WARNING", ["3 messages"])
    ran = shell("check", "stream", stream, "--seen-critical", "1d")
    assert (ran.code, ran.out.split(" OK:")[0]) == (2, f"CRITICAL {stream} Crit:not mirrored")


def test_prometheus_always_succeeds_and_may_write_a_file(shell: Shell, stream: str, tmp_path: Path) -> None:
    out = tmp_path / "check.prom"
    flags = ["--msgs-critical", "9", "--format", "prometheus", "--namespace", "hw", "--outfile", str(out)]
    ran = shell("check", "stream", stream, *flags)
    assert (ran.code, ran.out) == (0, "")
    assert f'hw_stream_status_code{{item="{stream}",status="CRITICAL"}} 2\n' in out.read_text()
    assert list(tmp_path.iterdir()) == [out]


def test_thresholds_in_the_metadata_count_until_a_flag_says_otherwise(shell: Shell, name: str) -> None:
    flags = ["--subjects", f"{name}.>", "--defaults", "--metadata", "io.nats.monitor.msgs-critical=5"]
    shell.ok("stream", "add", name, *flags)
    assert shell("check", "stream", name).code == 2
    assert shell("check", "stream", name, "--msgs-critical", "0").code == 0
    shell.ok("stream", "edit", name, "--metadata", "io.nats.monitor.msgs-critical=many", "-f")
    ran = shell("check", "stream", name)
    assert (ran.code, ran.out.startswith(f"UNKNOWN {name} Unknown:io.nats.monitor.msgs")) == (3, True)


def test_a_missing_stream_and_a_missing_server_are_critical(shell: Shell) -> None:
    ran = shell("check", "stream", "NOPE")
    assert (ran.code, ran.out.count("\n")) == (2, 1)
    assert ran.out.startswith("CRITICAL NOPE Crit:could not load info: stream not found (10059)")
    ran = shell("check", "stream", "NOPE", "-s", "nats://127.0.0.1:1")
    assert (ran.code, ran.out.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "arguments", [("--lag-critical", "much"), ("--seen-critical", "soon"), ("--lga", "1"), ()]
)
def test_bad_usage_is_unknown_and_not_critical(shell: Shell, arguments: tuple[str, ...]) -> None:
    given = ("X", *arguments) if arguments else ()
    assert shell("check", "stream", *given).code == 3


def test_an_engine_is_checked_as_a_whole(shell: Shell, stream: str) -> None:
    ran = shell("check", "engine", "--json")
    figures = {figure["name"]: figure["value"] for figure in ran.json["perf_data"]}
    assert ran.json["check_suite"] == "engine"
    assert figures["streams"] >= 1
    assert (figures["streams_offline"], figures["streams_failing"]) == (0, 0)
    assert shell("check", "engine", "--format", "prometheus").code == 0
    away = shell("check", "engine", "--server", "nats://127.0.0.1:1", "--timeout", "1s")
    assert (away.code, away.out.split(":")[0]) == (2, "CRITICAL nats")
    assert "Crit:the engine does not answer: " in away.out
    assert shell("check", "engine", "--no-such-flag").code == 3
