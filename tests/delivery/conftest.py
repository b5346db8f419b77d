"""A workshop for the streams of one test, and the consumers of a plain stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from delivery.deliveries import Desk
from delivery.deliveries import desk as opened_desk
from stream.streams import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    """Run what streams share."""
    workshop = Workshop(tmp_path)
    yield workshop
    workshop.close()


@pytest.fixture
async def desk(workshop: Workshop) -> AsyncIterator[Desk]:
    """Run the consumers of a stream with limits."""
    async with opened_desk(workshop) as running:
        yield running
