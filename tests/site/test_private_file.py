"""Secrets are readable by their owner alone."""

from __future__ import annotations

from pathlib import Path

from headwater.site.private_file import write_private


def test_a_private_file_is_replaced_whole_and_shown_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "secret"
    for text in ("one", "two"):
        write_private(path, text)
        assert path.read_text() == text
        assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["secret"]
