"""The limits of an account, and how much of them is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.errors import api_error
from headwater.model.stream import Storage, StreamConfig
from headwater.settings import Settings

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits of an account; -1 is no limit."""

    max_memory: int = UNLIMITED
    max_storage: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    memory_max_stream_bytes: int = UNLIMITED
    storage_max_stream_bytes: int = UNLIMITED
    max_bytes_required: bool = False
    max_replicas: int = 1

    @classmethod
    def of(cls, settings: Settings, copies: int = 1) -> AccountLimits:
        """Return the limits in the settings, for a store of which a journal keeps this many copies."""
        return cls(
            max_memory=settings.max_memory_bytes,
            max_storage=settings.max_storage_bytes,
            max_streams=settings.max_streams,
            max_consumers=settings.max_consumers,
            max_ack_pending=settings.max_ack_pending,
            memory_max_stream_bytes=settings.memory_max_stream_bytes,
            storage_max_stream_bytes=settings.storage_max_stream_bytes,
            max_bytes_required=settings.max_bytes_required,
            max_replicas=max(settings.max_replicas, copies),
        )

    def check_count(self, streams: int) -> None:
        """Refuse one more stream in addition to this many others."""
        if 0 < self.max_streams <= streams:
            raise api_error("maximum_streams_limit")

    def check_replicas(self, config: StreamConfig) -> None:
        """Refuse more replicas than the journal keeps, or than the settings declare for the storage."""
        if config.num_replicas > self.max_replicas:
            raise api_error("stream_replicas_not_supported")

    def check_config(self, config: StreamConfig) -> None:
        """Refuse a config that lacks or exceeds what the account requires of each stream."""
        memory = config.storage is Storage.MEMORY
        limit = self.memory_max_stream_bytes if memory else self.storage_max_stream_bytes
        if config.max_bytes <= 0 and (self.max_bytes_required or limit > 0):
            raise api_error("stream_max_bytes_required")
        if 0 < limit < config.max_bytes:
            raise api_error("stream_max_stream_bytes_exceeded")

    def check_space(self, config: StreamConfig, others: Iterable[StreamConfig]) -> None:
        """Refuse a stream whose bytes do not fit next to what the others reserve."""
        if 0 < self.max_consumers < config.max_consumers:
            raise api_error("maximum_consumers_limit")
        memory = config.storage is Storage.MEMORY
        limit = self.max_memory if memory else self.max_storage
        wanted = config.max_bytes if config.max_bytes >= 0 else 1
        if limit >= 0 and reserved(config.storage, others) + wanted > limit:
            raise api_error("memory_resources_exceeded" if memory else "storage_resources_exceeded")


NO_LIMITS = AccountLimits()


def reserved(storage: Storage, configs: Iterable[StreamConfig]) -> int:
    """Return the bytes that these streams reserve of one kind of storage."""
    return sum(c.max_bytes for c in configs if c.storage is storage and c.max_bytes > 0)
