"""A real Spark driver that copies a stream by two queries: by `writeStream`, and by `foreachBatch`.

`python spark_query.py URL CHECKPOINTS` runs until it is killed. A query that fails is started again from its
checkpoint. The second query writes messages with ids, and each batch to a file too, so that a repeated batch
can be compared with the first attempt.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

ORIGIN, PLAIN, IDENTIFIED = "ORIGIN", "PLAIN", "IDENTIFIED"
PER_BATCH = 40
PATIENT_S = 60
"""How long parts of Spark wait for each other: on a busy machine a worker starts slowly."""
PAUSE_S = 0.2
FAILURES = 200
"""After so many the driver ends, and the test fails."""


def session() -> SparkSession:
    """Return a small Spark on loopback."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = str(PATIENT_S)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.python.authenticate.socketTimeout": f"{PATIENT_S}s",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def noted(url: str, folder: Path, rows: DataFrame, batch: int) -> None:
    """Write a batch to a file and to the stream."""
    found = [[row.seq, row.text] for row in rows.selectExpr("seq", "string(data) AS text").collect()]
    unfinished = folder / f"{uuid.uuid4().hex}.tmp"
    unfinished.write_text(json.dumps(sorted(found)))
    unfinished.rename(folder / f"{batch}-{uuid.uuid4().hex}.json")
    ids = renamed(rows, IDENTIFIED).selectExpr("*", "string(data) AS msg_id")
    once = {"queryId": "identified", "batchId": str(batch)}
    ids.write.format("headwater").mode("append").options(server=url, stream=IDENTIFIED, **once).save()


def renamed(rows: DataFrame, name: str) -> DataFrame:
    """Return the messages with the subjects of another stream."""
    return rows.selectExpr(f"concat('{name}', substring(subject, {len(ORIGIN) + 1})) AS subject", "data")


def start(spark: SparkSession, name: str, url: str, folder: Path) -> StreamingQuery:
    """Start the query of this name from its checkpoint."""
    limits = {"maxMessagesPerTrigger": str(PER_BATCH)}
    rows = spark.readStream.format("headwater").options(server=url, stream=ORIGIN, **limits).load()
    if name == IDENTIFIED:
        writer = rows.writeStream.foreachBatch(partial(noted, url, folder / "batches"))
    else:
        writer = renamed(rows, name).writeStream.format("headwater").options(server=url, stream=name)
    return writer.option("checkpointLocation", str(folder / name)).start()


def has_begun(query: StreamingQuery) -> bool:
    """Return once a query has run its first batch; False if it has failed.

    Spark gives the worker of a source ten seconds to start, and starts no other if it is late. Queries that
    start at the same time slow each other down, so that on a busy machine all of them fail, again and again.
    """
    while query.isActive:
        if query.lastProgress is not None:
            return True
        time.sleep(PAUSE_S)
    return False


def started(spark: SparkSession, name: str, url: str, folder: Path) -> StreamingQuery | None:
    """Return the running query of this name; None if it has failed, as it does while the engine is down."""
    try:
        query = start(spark, name, url, folder)
    except PySparkException as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return None
    return query if has_begun(query) else None


def main(url: str, folder: Path) -> None:
    """Keep the queries running."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    (folder / "batches").mkdir(exist_ok=True)
    # Either may be the first, so that kills meet both.
    queries: dict[str, StreamingQuery | None] = dict.fromkeys(random.sample((PLAIN, IDENTIFIED), 2))
    failures = 0
    while failures < FAILURES:
        for name, query in queries.items():
            if query is None or not query.isActive:
                queries[name] = started(spark, name, url, folder)
                failures += queries[name] is None
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
