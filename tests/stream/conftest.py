"""A workshop for the streams of one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.streams import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    workshop.close()
