"""The directory of a store is created, or refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.store_directory import require_directory


def test_a_directory_is_created_for_its_user_alone(tmp_path: Path) -> None:
    require_directory(tmp_path / "a" / "b")
    assert not (tmp_path / "a" / "b").stat().st_mode & 0o027


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_is_no_store(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is a file, or is below a file: name a directory"):
        require_directory(tmp_path / place)


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # To root everything is writable: have the system say otherwise.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(SettingsError, match="this user cannot write in"):
        require_directory(tmp_path / "new")
