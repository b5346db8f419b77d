"""Streams whose tables are in a real S3 server, behind faults; nothing of a table stays on the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from breakable_objects import BreakableObjects, ObjectFault
from headwater.model.stream import StreamConfig
from headwater.objects.bucket import Bucket
from headwater.stream.stream import Stream
from headwater.stream.view import RunCache
from headwater.table.bucket_tables import BucketTables
from seaweed import SeaweedServer
from stream.streams import Workshop


class BucketWorkshop(Workshop):
    """What the streams of one test share, with tables in a bucket of their own."""

    def __init__(self, directory: Path, server: SeaweedServer, **settings: Any) -> None:
        super().__init__(directory, **settings)
        address = server.new_bucket().below("prod")
        self.objects = BreakableObjects(Bucket(address))
        tables = BucketTables(address, directory, 0, self.objects)
        # One run of all streams stays in memory, which is the least that a cache keeps.
        self.services = replace(self.services, tables=tables, cache=RunCache(0))

    async def open(self, config: StreamConfig) -> Stream:
        (self.directory / config.name).mkdir(exist_ok=True)
        return await super().open(config)

    def hang(self) -> None:
        """Let no read return before the bucket is healed: one on the event loop would end the test."""
        self.objects.break_always(ObjectFault.SLOW, "read")

    def refuse(self) -> None:
        """Make the bucket unreachable until `heal`."""
        self.objects.break_always(ObjectFault.REFUSED)

    def forget(self) -> None:
        """Have nothing in memory of what was read or folded."""
        self.services.cache._runs.clear()
