"""A config is read from a file or from the output of `info`, edited, and compared line by line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from headwater.cli.config_editing import differences, edited, read_config
from headwater.errors import SettingsError


def test_a_file_has_a_config_or_the_info_that_contains_one(tmp_path: Path) -> None:
    (tmp_path / "config").write_text('{"name": "A"}')
    (tmp_path / "info").write_text('{"config": {"name": "A"}, "state": {}}')
    assert (
        read_config(tmp_path / "config", "stream")
        == read_config(tmp_path / "info", "stream")
        == {"name": "A"}
    )


def test_a_file_that_is_missing_or_no_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*nothing: no such file"):
        read_config(tmp_path / "nothing", "stream")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SettingsError, match="text is not a consumer config"):
        read_config(tmp_path / "text", "consumer")


def test_removed_and_added_lines_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not differences({"a": 1, "b": 2}, {"b": 2, "a": 1})
    shown = differences({"a": 1, "b": 2}, {"a": 1, "b": 3}).plain
    assert shown.splitlines() == ["Differences (-old +new):", '-  "b": 2', '+  "b": 3']


@pytest.mark.parametrize(
    ("text", "said"), [(None, "the editor did not save"), ("{", "the edited text is not JSON")]
)
def test_an_editor_that_saves_no_config_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    monkeypatch.setattr(click, "edit", lambda *_, **__: text)
    with pytest.raises(SettingsError, match=said):
        edited({"name": "A"})


def test_the_edited_config_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click, "edit", lambda text, **_: text.replace("A", "B"))
    assert edited({"name": "A"}) == {"name": "B"}
