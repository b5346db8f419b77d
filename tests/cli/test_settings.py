"""`headwater settings`: values, their sources, and no secrets."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from headwater.cli.main import headwater
from headwater.settings import rows


def test_every_setting_is_printed_with_its_value_and_its_origin(tmp_path: Path) -> None:
    config = tmp_path / "a rather long name so that the line is longer than a terminal is wide.toml"
    config.write_text("fold_messages = 77")
    arguments = ["settings", "--config", str(config), "--port", "5000"]
    output = CliRunner(env={"HEADWATER_ERASE_GRACE_S": "9"}).invoke(headwater, arguments).output
    lines = {line.split()[0]: line.split(maxsplit=2)[1:] for line in output.splitlines()}
    assert {row.name for row in rows()} < set(lines)
    assert lines["port"] == ["5000", "flag --port"]
    assert lines["erase_grace_s"] == ["9.0", "environment variable HEADWATER_ERASE_GRACE_S"]
    assert lines["fold_messages"] == ["77", f"{config}: fold_messages"]


def test_secrets_are_not_printed() -> None:
    environ = {"HEADWATER_TOKEN": "hush", "HEADWATER_NATS_URL": "nats://ann:hush@h"}
    output = CliRunner(env=environ).invoke(headwater, ["settings"]).output
    assert "hush" not in output
    assert "(hidden)" in output


def test_each_seat_is_printed_with_what_is_its_own(tmp_path: Path) -> None:
    config = tmp_path / "seats.toml"
    config.write_text('[[seat]]\naccount = "A"\nnats_url = "nats://h"\nuser = "u"\npassword = "hush"\n')
    output = CliRunner().invoke(headwater, ["settings", "--config", str(config)]).output
    found = [line.split() for line in output.splitlines() if line.endswith("seat 1")]
    assert ["account", "A", "seat", "1"] in found
    assert ["password", "(hidden)", "seat", "1"] in found
    assert "hush" not in output
