"""The protocol of a stream's consumers: what the stream reports to them and asks them."""

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
    """The consumers of one stream."""

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        """These messages are durable now."""
        ...

    def on_adopted(self, adopted: Adopted) -> None:
        """The messages of this file can be read now."""
        ...

    def on_removed(self, removal: Removal) -> None:
        """These messages were removed."""
        ...

    def on_rebuilt(self) -> None:
        """The stream was rolled back to what is durable, with the consumers' recorded states."""
        ...

    def wants(self, subject: bytes) -> bool:
        """Return whether a consumer needs the messages of a subject."""
        ...

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of these messages the retention policy removes now."""
        ...

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        """Return whether it is certain, without a look at messages, that nothing in a range is needed."""
        ...

    def dump(self) -> dict[str, list[bytes]]:
        """Return the state of every consumer as it was last recorded."""
        ...
