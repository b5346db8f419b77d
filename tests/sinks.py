"""Sinks for tests of the bus."""

from __future__ import annotations

from headwater.wire.frames import Frame
from waits import until


class KeptSink:
    """Keeps every frame it was given."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.frames: list[Frame] = []

    def flush(self) -> None:
        """Keep the messages that arrived."""
        self.frames += self.items
        self.items.clear()

    @property
    def datas(self) -> list[bytes]:
        """Return the data of all frames."""
        return [frame[3] for frame in self.frames]

    async def got(self, count: int) -> list[Frame]:
        """Return the frames once there are `count` of them."""
        await until(lambda: len(self.frames) >= count)
        return self.frames
