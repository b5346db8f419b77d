"""The settings as flags: all of them, in their groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.main import headwater
from headwater.cli.options import load_from
from headwater.settings import flag_of, rows


def test_help_shows_every_setting_under_its_group() -> None:
    text = CliRunner().invoke(headwater, ["serve", "--help"]).output
    for row in rows():
        before, found, _ = text.partition(f"  {flag_of(row)} ")
        assert found, flag_of(row)
        headings = [line for line in before.splitlines() if line.endswith(":") and not line.startswith(" ")]
        assert headings[-1] == f"{row.metadata['group']}:"


def test_a_flag_that_was_not_given_does_not_hide_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADWATER_STORE", str(tmp_path))
    loaded = load_from(None, {"store": None, "port": "5"})
    assert (loaded.settings.store, loaded.settings.port) == (tmp_path, 5)


@pytest.mark.parametrize(
    ("given", "meant"), [([], False), (["--standby"], True), (["--standby", "false"], False)]
)
def test_a_flag_of_yes_or_no_needs_no_value(given: list[str], meant: bool) -> None:
    shown = CliRunner().invoke(headwater, ["settings", *given]).output
    (line,) = [line for line in shown.splitlines() if line.startswith("standby")]
    assert line.split()[1] == str(meant)
