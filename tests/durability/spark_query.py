"""A real Spark driver that copies a stream by two queries: by `writeStream`, and by `foreachBatch`.

`python spark_query.py URL CHECKPOINTS` runs until it is killed. A query that fails is started again from its
checkpoint. The second query writes messages with ids, and each batch to a file too, so that a repeated batch
can be compared with the first attempt.
"""

from __future__ import annotations

import json
import os
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
PATIENT_S = 300
"""How long parts of Spark wait for each other: on a busy machine a worker starts slowly."""
FAILURES = 200
"""After so many the driver ends, and the test fails."""


def session() -> SparkSession:
    """Return a small Spark on loopback."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
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


def main(url: str, folder: Path) -> None:
    """Keep the queries running."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    (folder / "batches").mkdir(exist_ok=True)
    queries: dict[str, StreamingQuery] = {}
    failures = 0
    while failures < FAILURES:
        for name in (PLAIN, IDENTIFIED):
            if name not in queries or not queries[name].isActive:
                failures += name in queries
                try:
                    queries[name] = start(spark, name, url, folder)
                except PySparkException as error:  # the engine is down: start again
                    failures += 1
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
