"""Spark reads a stream through `format("headwater")`, and the bare Parquet files of the same table.

Both read in turn, in one run, with the same Spark. Each line has the seconds, the CPU seconds of all
processes and the bytes read. The ratio is that of the bare files to ours: 1.0 is as fast, 0.5 takes twice as
long.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench import processes
from bench.machine import describe
from bench.processes import Usage
from bench.servers import headwater, nats_server_program
from bench.sink import declare, session
from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import bulk_client
from headwater.spark.message_rows import MessageRows
from headwater.spark.table_files import files_of

SUBJECTS = 1000
"""How many subjects there are, `bench.<0 to 99>.<0 to 9>`: a first number is 1 % of them."""
COMMITTED = 500_000
"""How many messages are stored as one change."""
WARMED_UP = 3
"""How many of the cases run once before the first round: the first queries of a session start the workers."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
Scan = Callable[[SparkSession], object]


class Case(NamedTuple):
    """One question, put to the stream and to the files."""

    name: str
    ours: Scan
    bare: Scan


class Took(NamedTuple):
    """What one scan took."""

    seconds: float
    used: Usage


def main() -> None:
    """Fill a stream, scan it in several rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is ten million messages")
    parser.add_argument("--size", type=int, default=128, help="bytes of data in a message")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    count = int(10_000_000 * arguments.scale)
    print(describe(nats_server_program()))
    with tempfile.TemporaryDirectory() as directory:
        with headwater(Path(directory) / "store") as server:
            url = f"nats://127.0.0.1:{server.port}"
            asyncio.run(declare(url))
            fill(url, count, arguments.size)
            (table,) = Path(directory).rglob("BENCH/table")
            cases = cases_of(url, table, count)
            found = measured(session(), cases, arguments.rounds)
    print(f"{count:,} messages of {arguments.size} bytes, load {os.getloadavg()[0]:.0f}")
    report(found)


def fill(url: str, count: int, size: int) -> None:
    """Write messages with subjects in a random order and data of which a half is random."""
    numbers = np.random.default_rng(1)
    names = pa.array([f"bench.{n // 10}.{n % 10}" for n in range(SUBJECTS)])
    random_part = random.Random(1).randbytes(4096 + size).hex().encode()
    with bulk_client(NatsOrigin(servers=(url,), api_prefix="$JS.API", stream="BENCH")) as client:
        for batch, start in enumerate(range(0, count, COMMITTED)):
            part = client.part(f"fill-{batch}", "part")
            for first in range(start, min(start + COMMITTED, count), 10_000):
                some = min(10_000, min(start + COMMITTED, count) - first)
                datas = [payload(number, size, random_part) for number in range(first, first + some)]
                subjects = names.take(pa.array(numbers.integers(0, SUBJECTS, some)))
                rows = pa.record_batch({"subject": subjects, "data": pa.array(datas)})
                for chunk in MessageRows(rows).chunks(client.chunk_bytes):
                    part.append(chunk)
            client.commit(f"fill-{batch}", "fill", batch, ["part"], part.finish())


def payload(number: int, size: int, random_part: bytes) -> bytes:
    """Return a JSON object of a size."""
    head = b'{"number": %d, "noise": "' % number
    at = number * 31 % 8192
    noise = random_part[at : at + size // 2]
    return head + noise + b"x" * (size - len(head) - len(noise) - 2) + b'"}'


def cases_of(url: str, table: Path, count: int) -> list[Case]:
    """Return the questions."""
    files = [file.path for file in files_of(table)]
    first, last = count // 2, count // 2 + count // 100 - 1

    def ours(spark: SparkSession, **options: str) -> DataFrame:
        return spark.read.format("headwater").options(server=url, **options).load(str(table.parent))

    def bare(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(*files)

    sums, kept = "sum(length(data))", "subject LIKE 'bench.7.%'"
    pushed: Mapping[str, str] = {"columns": "subject,data", "pushFilters": "true"}
    within = {"startSequence": str(first + 1), "endSequence": str(last + 1)}
    return [
        Case("count", lambda s: ours(s, columns="seq").count(), lambda s: bare(s).count()),
        Case("count, all columns", lambda s: ours(s).count(), lambda s: bare(s).count()),
        Case(
            "sum over all data",
            lambda s: ours(s, columns="data").selectExpr(sums).collect(),
            lambda s: bare(s).selectExpr(sums).collect(),
        ),
        Case(
            "sum, all columns",
            lambda s: ours(s).selectExpr(sums).collect(),
            lambda s: bare(s).selectExpr(sums).collect(),
        ),
        Case(
            "every column",
            lambda s: ours(s).write.format("noop").mode("append").save(),
            lambda s: bare(s).write.format("noop").mode("append").save(),
        ),
        Case(
            "1 % of subjects, option",
            lambda s: ours(s, columns="data", subject="bench.7.*").selectExpr(sums).collect(),
            lambda s: bare(s).where(kept).selectExpr(sums).collect(),
        ),
        Case(
            "1 % of subjects, pushed",
            lambda s: ours(s, **pushed).where(kept).selectExpr(sums).collect(),
            lambda s: bare(s).where(kept).selectExpr(sums).collect(),
        ),
        Case(
            "1 % of subjects, by Spark",
            lambda s: ours(s, columns="subject,data").where(kept).selectExpr(sums).collect(),
            lambda s: bare(s).where(kept).selectExpr(sums).collect(),
        ),
        Case(
            "1 % of sequences",
            lambda s: ours(s, columns="data", **within).selectExpr(sums).collect(),
            lambda s: bare(s).selectExpr(sums).collect(),
        ),
    ]


def measured(spark: SparkSession, cases: list[Case], rounds: int) -> dict[str, list[tuple[Took, Took]]]:
    """Return what each round of each case took, ours and that of the bare files."""
    spark.conf.set(PUSHDOWN, "true")
    for case in cases[:WARMED_UP]:
        case.ours(spark)
        case.bare(spark)
    found: dict[str, list[tuple[Took, Took]]] = {case.name: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            ours, took = timed(case.ours, spark)
            theirs, took_bare = timed(case.bare, spark)
            assert case.name == "1 % of sequences" or ours == theirs, (case.name, ours, theirs)
            found[case.name].append((took, took_bare))
    spark.stop()
    return found


def timed(scan: Scan, spark: SparkSession) -> tuple[object, Took]:
    """Return the answer of a scan and what it took."""
    before, began = processes.now(), time.perf_counter()
    answer = scan(spark)
    return answer, Took(time.perf_counter() - began, processes.since(before))


def report(found: Mapping[str, list[tuple[Took, Took]]]) -> None:
    """Print the median of each case."""
    print(f"{'':28}{'ours':>30}{'bare files':>30}{'ratio':>8}{'of CPU':>8}")
    for name, rounds in found.items():
        ours, bare = ([pair[side] for pair in rounds] for side in (0, 1))
        ratio = _median(bare, lambda t: t.seconds) / _median(ours, lambda t: t.seconds)
        cpu = _median(bare, lambda t: t.used.cpu_s) / max(_median(ours, lambda t: t.used.cpu_s), 0.01)
        print(f"{name:28}{_line(ours):>30}{_line(bare):>30}{ratio:8.2f}{cpu:8.2f}")


def _line(took: list[Took]) -> str:
    seconds, cpu_s = _median(took, lambda t: t.seconds), _median(took, lambda t: t.used.cpu_s)
    size = _median(took, lambda t: float(t.used.read_bytes)) / 2**20
    return f"{seconds:.2f} s {cpu_s:.2f} s {size:,.0f} MiB"


def _median(took: list[Took], of: Callable[[Took], float]) -> float:
    return statistics.median(map(of, took))


if __name__ == "__main__":
    main()
