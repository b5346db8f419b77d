"""What the streams of an engine share: settings, clock, disks, threads, cache and limits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from headwater.clock import Clock
from headwater.disk import Disk
from headwater.fence import NO_FENCE, Fence
from headwater.meters import Meters
from headwater.settings import Settings
from headwater.stream.retention.account_room import FreeBytes
from headwater.stream.retention.quota import Quota
from headwater.stream.view import RunCache
from headwater.table.bucket_tables import BucketTables
from headwater.wire.frames import MAX_SIZE


@dataclass(frozen=True, slots=True)
class Services:
    """What the streams of an engine share."""

    settings: Settings
    clock: Clock
    file_disk: Disk
    memory_disk: Disk
    cache: RunCache
    sync_executor: Executor
    """Runs appends and syncs, which publishers wait for."""
    work_executor: Executor
    """Runs reads, folds and compaction."""
    send: Callable[[bytes], None] = lambda frames: None
    """Sends frames to nats-server."""
    max_payload: Callable[[], int] = lambda: MAX_SIZE
    """Returns the largest headers and data together that nats-server takes from us."""
    client_limit: int = -1
    """The same for what clients publish, where the server takes more than they may; -1 leaves it to it."""
    free_bytes: FreeBytes = lambda storage: None
    """Returns what the account may store beyond all that its streams hold; None without a limit."""
    domain: str = ""
    """The JetStream domain that acknowledgements name."""
    atomic_quota: Quota = field(default_factory=Quota)
    fast_quota: Quota = field(default_factory=Quota)
    fence: Fence = NO_FENCE
    """Whether this engine still owns the store."""
    tables: BucketTables | None = None
    """Where the tables of new streams are kept, if not in the store."""
    meters: Meters = field(default_factory=Meters)
    """Counts and times what the streams do."""
