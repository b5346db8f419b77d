"""The reference page of the settings."""

from __future__ import annotations

from headwater.cli.docs.settings_page import settings_page
from headwater.settings import flag_of, rows, variable_of


def test_each_setting_has_one_row_with_flag_variable_and_meaning() -> None:
    lines = settings_page().splitlines()
    for row in rows():
        (line,) = [line for line in lines if line.startswith(f"| `{row.name}` ")]
        assert f"`{flag_of(row)}`" in line
        assert f"`{variable_of(row)}`" in line
        assert line.endswith(f" {row.metadata['doc']} |")
        assert line.count("|") == 7


def test_sizes_are_shown_in_the_form_that_a_setting_takes() -> None:
    assert "| `64MiB` | at least 4096 |" in settings_page()
