"""`headwater replicator`: what it asks for, and what it says when it cannot run."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from headwater.cli.main import headwater, main
from headwater.replication import replicator
from headwater.replication.replicator import ReplicatorOptions

NEEDED = ["--nats", "nats://127.0.0.1:1", "--store-id", "id1", "--replication-secret", "hush"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from an environment without settings."""
    for name in ("HEADWATER_NATS_URL", "HEADWATER_CONFIG", "HEADWATER_SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)


def left_with(arguments: list[str]) -> int:
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as left:
        main(["replicator", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def options_of(arguments: list[str]) -> ReplicatorOptions:
    """Return what a replicator would be run with."""
    seen: list[ReplicatorOptions] = []

    async def note(options: ReplicatorOptions) -> None:
        seen.append(options)

    with patch.object(replicator, "replicate", note):
        assert left_with(arguments) == 0
    return seen[0]


def test_a_replicator_without_a_server_or_a_store_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with(["--store-id", "id1", "--replication-secret", "hush"]) == 2
    assert "--nats URL" in capsys.readouterr().err
    assert left_with(["--nats", "nats://127.0.0.1:1"]) == 2
    assert "--store-id" in capsys.readouterr().err


def test_flags_say_where_to_connect_and_where_to_run() -> None:
    options = options_of([*NEEDED, "--master", "spark://hub:7077", "--user", "me", "--password", "hush"])
    (engine,) = options.engines
    assert (engine.store_id, options.master, options.driver_memory) == ("id1", "spark://hub:7077", "1g")
    assert engine.options.servers == ("nats://127.0.0.1:1",)
    assert (engine.options.user, engine.options.password) == ("me", "hush")
    assert options.parent is None


def test_the_environment_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_NATS_URL", "nats://a:1,nats://b:2")
    monkeypatch.setenv("HEADWATER_SPARK_MASTER", "local[3]")
    options = options_of(["--store-id", "id1", "--replication-secret", "hush", "--parent", "7"])
    assert options.engines[0].options.servers == ("nats://a:1", "nats://b:2")
    assert (options.master, options.parent) == ("local[3]", 7)


def test_several_engines_are_named_with_their_settings_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("hub", "edge"):
        (tmp_path / f"{name}.toml").write_text(f'nats_url = "nats://{name}:1"\nstore = "s"\n')
    named = [f"--engine=id-{name}={tmp_path}/{name}.toml" for name in ("hub", "edge")]
    found = [(engine.store_id, engine.options.servers) for engine in options_of(named).engines]
    assert found == [("id-hub", ("nats://hub:1",)), ("id-edge", ("nats://edge:1",))]
    assert left_with(["--engine", "id"]) == 2
    assert "ID=FILE" in capsys.readouterr().err


def test_an_engine_with_several_seats_is_asked_at_each_of_them(tmp_path: Path) -> None:
    seats = [f'[[seat]]\naccount = "{name}"\nnats_url = "nats://{name}:1"\n' for name in ("A", "B")]
    (tmp_path / "seats.toml").write_text("".join(seats))
    for arguments in (
        [f"--engine=id1={tmp_path}/seats.toml"],
        ["--store-id", "id1", "--replication-secret", "hush", "--config", f"{tmp_path}/seats.toml"],
    ):
        engines = options_of(arguments).engines
        found = [(engine.store_id, engine.seat, engine.options.servers) for engine in engines]
        assert found == [("id1", "A", ("nats://A:1",)), ("id1", "B", ("nats://B:1",))]


def test_a_missing_java_is_said_in_one_sentence_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert left_with(NEEDED) == 1
    said = capsys.readouterr().err
    assert said.startswith("headwater: Java 17 is missing")
    assert "apt-get install -y openjdk-17-jre-headless" in said
    assert said.count("\n") == 1


def test_a_missing_pyspark_is_said_in_one_sentence_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr("headwater.replication.spark.check_java", lambda environ: None)
    assert left_with(NEEDED) == 1
    assert "pip install 'pyspark>=4.2'" in capsys.readouterr().err


def test_help_shows_what_a_replicator_needs_and_no_setting_of_the_engine() -> None:
    text = CliRunner().invoke(headwater, ["replicator", "--help"]).output
    assert all(flag in text for flag in ("--nats", "--store-id", "--master", "--creds", "--log-level"))
    assert "--fold-bytes" not in text
    assert "Examples:" in text


def test_executors_may_have_their_file_under_another_path() -> None:
    assert options_of(NEEDED).executor_config == ""
    assert options_of([*NEEDED, "--executor-config", "/etc/headwater"]).executor_config == "/etc/headwater"
