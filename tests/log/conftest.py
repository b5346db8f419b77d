"""A place for a log on a disk that does not wait for syncs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.disk import RealDisk


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk(sync=False)
