"""Folding and reading a long stream whose table is in a bucket, and one on the disk.

Without an address, a SeaweedFS on this machine has the bucket. Each round starts the engine again without its
cache, so that every byte comes from the bucket. The second figure of a round is taken with what the first one
has left in the cache on the disk, without the cache in memory. The third one of single messages is taken with
the default cache in memory.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench import servers
from bench.comparison import fill
from bench.generator import Connection
from bench.machine import describe
from bench.subscriber import STREAM, replay
from headwater.table.parquet import MAX_GROUP_ROWS

FOLD_S = 120.0


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", help="address in a bucket, s3://bucket/prefix")
    parser.add_argument("--tables-endpoint", help="address of the S3 server")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{describe(servers.nats_server_program())}\n{arguments.messages:,} messages of 128 B")
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-"))
        bucket: Sequence[str]
        if arguments.tables:
            bucket = ["--tables", f"{arguments.tables}/bench-{os.getpid()}-{time.time_ns()}"]
            bucket += ["--tables-endpoint", arguments.tables_endpoint] if arguments.tables_endpoint else []
        else:
            bucket = stack.enter_context(bucket_options())
        for name, options in (("disk", []), ("bucket", bucket)):
            _measure(name, Path(top) / name, options, arguments.messages, arguments.rounds)


@contextmanager
def bucket_options() -> Iterator[tuple[str, ...]]:
    """Run a SeaweedFS, and return the options of an engine whose tables are there."""
    from seaweed import seaweed  # from the folder of the tests

    with seaweed() as server:
        os.environ.update(server.environment)
        address = server.new_bucket().below("bench")
        yield ("--tables", address.url, "--tables-endpoint", str(address.endpoint))


def _folded(directory: Path, options: Sequence[str], messages: int) -> tuple[int, float]:
    """Fill a stream whose engine is killed before it folds; return its length and the rate of the fold."""
    unfolded = ("--fold-interval-s", "3600", "--fold-bytes", str(1 << 40), "--fold-messages", str(10**12))
    with servers.headwater(directory, *options, *unfolded) as server:
        count = fill(server.port, messages)
        server.process.kill()
        server.process.wait()
    with servers.headwater(directory, *options):
        began = time.perf_counter()
        _await_fold(directory / "store")
        return count, count / (time.perf_counter() - began)


def _measure(name: str, directory: Path, options: Sequence[str], messages: int, rounds: int) -> None:
    """Fill a stream and print how fast it is read."""
    count, fold_rate = _folded(directory, options, messages)
    cold: list[float] = []
    warm: list[float] = []
    first_gets: list[float] = []
    again: list[float] = []
    in_memory: list[float] = []
    for number in range(rounds):
        shutil.rmtree(directory / "store" / ".tables" / "cache", ignore_errors=True)
        with servers.headwater(directory, "--read-cache-bytes", "0", *options) as server:
            connection = Connection(server.port)
            seqs = _one_of_each_group(random.Random(number), count)
            first_gets += _get_all(connection, seqs)
            again += _get_all(connection, seqs)
            connection.close()
        with servers.headwater(directory, *options) as server:
            connection = Connection(server.port)
            _get_all(connection, seqs)
            in_memory += _get_all(connection, seqs)
            connection.close()
        shutil.rmtree(directory / "store" / ".tables" / "cache", ignore_errors=True)
        with servers.headwater(directory, "--read-cache-bytes", "0", *options) as server:
            for rates in (cold, warm):
                connection = Connection(server.port)
                rates.append(replay(connection, count, f"round{number}{len(rates)}{id(rates)}").rate)
                connection.close()
    print(
        f"{name:<8} fold {fold_rate:>10,.0f} msg/s; replay {median(cold):>10,.0f} msg/s,"
        f" cached {median(warm):>10,.0f} msg/s;"
        f"  one message {median(first_gets) * 1e3:>7.2f} ms (p99 {_p99(first_gets) * 1e3:.2f} ms),"
        f" cached {median(again) * 1e3:>6.2f} ms (p99 {_p99(again) * 1e3:.2f} ms),"
        f" in memory {median(in_memory) * 1e3:>6.2f} ms (p99 {_p99(in_memory) * 1e3:.2f} ms)"
    )


def _one_of_each_group(chance: random.Random, count: int) -> list[int]:
    """Return sequences of which no two are in one row group, in any order."""
    apart = 2 * MAX_GROUP_ROWS
    seqs = [
        chance.randrange(first, min(first + MAX_GROUP_ROWS, count + 1))
        for first in range(1, count + 1, apart)
    ]
    chance.shuffle(seqs)
    return seqs


def _get_all(connection: Connection, seqs: Sequence[int]) -> list[float]:
    """Return how long each message took."""
    took = []
    for seq in seqs:
        began = time.perf_counter()
        answer = connection.request(f"$JS.API.STREAM.MSG.GET.{STREAM}", {"seq": seq})
        took.append(time.perf_counter() - began)
        if answer.get("message", {}).get("seq") != seq:
            raise SystemExit(f"message {seq} was refused: {answer}")
    return took


def _await_fold(store: Path) -> None:
    """Return once the log holds no message any more."""
    deadline = time.monotonic() + FOLD_S
    while sum(path.stat().st_size for path in store.glob(f"*/{STREAM}/log/*")) > 1 << 20:
        if time.monotonic() > deadline:
            raise SystemExit("the stream was not folded in time")
        time.sleep(0.05)


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


if __name__ == "__main__":
    main()
