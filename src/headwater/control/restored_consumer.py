"""A consumer of an archive that was checked and can be restored."""

from __future__ import annotations

from typing import NamedTuple

from headwater.model.consumer import ConsumerConfig


class RestoredConsumer(NamedTuple):
    """Its config, its creation time, and its whole state."""

    config: ConsumerConfig
    created_ns: int
    state: bytes
