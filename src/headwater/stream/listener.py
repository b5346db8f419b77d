"""Who follows a stream: told what happens to it, and asked what it must keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headwater.model.adopted import Adopted
from headwater.model.run import Run
from headwater.stream.head import HeadEntry
from headwater.stream.retention.removal import Removal


class Listener(Protocol):
    """Who follows a stream: its consumers."""

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        """These messages are durable now."""
        ...

    def on_adopted(self, adopted: Adopted) -> None:
        """The messages of this file are there now."""
        ...

    def on_removed(self, removal: Removal) -> None:
        """These messages are gone."""
        ...

    def on_rebuilt(self) -> None:
        """The stream has gone back to what is durable; the consumers' recorded states with it."""
        ...

    def wants(self, subject: bytes) -> bool:
        """Return whether anyone needs the messages of a subject."""
        ...

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of these messages nobody holds any more, as the retention has it."""
        ...

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        """Return whether it is plain that nobody holds anything of a range any more."""
        ...

    def dump(self) -> dict[str, list[bytes]]:
        """Return the state of every consumer as it was last recorded."""
        ...
