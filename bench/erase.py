"""How much updates of a key-value bucket make the engine rewrite: bytes of table files per dead byte.

Time is driven, so that an hour of updates takes seconds: a fold each second, a round of compaction each five.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.machine import describe
from bench.servers import nats_server_program
from headwater.clock import DrivenClock
from headwater.disk import RealDisk
from headwater.model.stream import StreamConfig
from headwater.settings import Settings
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from headwater.stream.view import RunCache

MIB = 1 << 20
SECOND = 1_000_000_000
COMPACT_S = 5
BLOCK = 1000


class Written:
    """Counts the bytes of table files as they come."""

    def __init__(self, stream: Stream) -> None:
        self._table = stream.directory / "table"
        self._seen: dict[str, int] = {}

    def look(self) -> None:
        """Record new files."""
        for path in self._table.rglob("*.parquet"):
            if "_delta_log" not in path.parts:
                self._seen.setdefault(path.name, path.stat().st_size)

    @property
    def total(self) -> int:
        """Return the bytes of all files that ever were there."""
        return sum(self._seen.values())


async def measure(
    directory: Path, keys: int, size: int, updates: int, per_second: int, **settings: float
) -> str:
    """Return a row of the table: fill a bucket, update keys at random, and count what was written."""
    clock, threads = DrivenClock(), ThreadPoolExecutor(4)
    disk = RealDisk(sync=False)
    services = Services(
        settings=Settings(**settings),  # type: ignore[arg-type]
        clock=clock,
        file_disk=disk,
        memory_disk=disk,
        cache=RunCache(64 * MIB),
        sync_executor=threads,
        work_executor=threads,
    )
    config = StreamConfig(name="KV", subjects=("kv.>",), max_msgs_per_subject=1, allow_rollup_hdrs=True)
    stream = await Stream.open(directory / "KV", config, created_ns=0, services=services)
    for start in range(0, keys, BLOCK):
        stream.publishing.offer(
            [(b"kv.%d" % key, b"", b"", bytes(size)) for key in range(start, min(start + BLOCK, keys))]
        )
    await stream.publishing.settled()
    await stream.folder.fold()
    await stream.folder.tidy()
    written = Written(stream)
    written.look()
    filled, began = written.total, time.perf_counter()
    draw = random.Random(1)
    for second in range(updates // per_second):
        clock.advance(SECOND)
        stream.publishing.offer(
            [(b"kv.%d" % draw.randrange(keys), b"", b"", bytes(size)) for _ in range(per_second)]
        )
        await stream.publishing.settled()
        await stream.folder.fold()
        written.look()
        if second % COMPACT_S == 0:
            await stream.folder.tidy()
            written.look()
    await stream.close()
    threads.shutdown()
    dead, again = updates * size, written.total - filled
    return (
        f"{filled / MIB:>9.1f}{updates:>10,}{dead / MIB:>11.2f}{again / MIB:>13.1f}{again / dead:>9.1f}"
        f"{time.perf_counter() - began:>8.1f}"
    )


def main() -> None:
    """Measure buckets of several sizes, on the budget and by age."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="payload bytes")
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--rate", type=int, default=2, help="updates a second")
    parser.add_argument("--keys", type=int, nargs="+", default=[2_000, 20_000, 100_000])
    parser.add_argument(
        "--ages", type=float, nargs="*", default=[30.0], help="erase_interval_s to compare with"
    )
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"{arguments.updates:,} updates of {arguments.size} B, {arguments.rate} a second of driven time")
    print(
        f"{'erased':<16}{'bucket':>9}{'updates':>10}{'dead, MiB':>11}{'written, MiB':>13}{'ratio':>9}{'s':>8}"
    )
    for keys in arguments.keys:
        for age in (None, *arguments.ages):
            asked = {} if age is None else {"erase_interval_s": age}
            with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
                row = asyncio.run(
                    measure(Path(directory), keys, arguments.size, arguments.updates, arguments.rate, **asked)
                )
            how = "on the budget" if age is None else f"after {age:g} s"
            print(f"{how:<16}{row}", flush=True)


if __name__ == "__main__":
    main()
