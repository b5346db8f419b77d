"""`headwater sql --spark` on a real Spark: the answers are those of DuckDB, in every format."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headwater.disk import RealDisk
from headwater.lake.stream_sql import StreamQuerySource, run, run_on_spark
from headwater.model.message import Message
from headwater.replication.spark import SparkCluster
from headwater.spark.quiet_session import quiet_session
from headwater.spark.session_query import QueryFailedError
from headwater.table import Table
from jetstreams import Shell
from lake.stores import ORDERS, lake
from table.samples import TS, columns_of
from waits import pauses

SCHEMA: dict[str, Any] = {
    "properties": {
        "id": {"type": "integer"},
        "s": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "n": {"type": "number"},
        "b": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "other": {},
    }
}
LARGE = b'{"id": 8, "s": "' + b"x" * (8 << 20) + b'"}'
PAYLOADS = [
    b'{"id": 1, "s": "x", "at": "2026-11-16T08:00:00Z", "n": 1.5, "b": true, "tags": [1, null]}',
    b'{"id": null, "s": null, "other": {"k": [1, 2]}}',
    b"plain text",
    b"\xff\xfe",
    b"",
    *(b'{"id": %s}' % each for each in (b'"7"', b"7.0", b"1e3", b"true", b"99999999999999999999", b"01")),
    *(b'{"s": %s}' % each for each in (b"5", b"true", b'{"a": 1}', b"[1, 2]", b'"\\u00e9\\n"')),
    *(b'{"n": %s}' % each for each in (b"3", b'"1.5"', b"true", b'"NaN"', b"1e400", b"null")),
    *(b'{"b": %s}' % each for each in (b"false", b'"true"', b"1")),
    *(
        b'{"at": %s}' % each
        for each in (b'"2026-11-16"', b'"2026-11-16T08:00:00.123456789+02:00"', b'"noon"')
    ),
    *(b'{"tags": %s}' % each for each in (b"[]", b"5", b'["a"]', b"[1, 2.5]", b'{"a": 1}')),
    *(b'{"o": %s}' % each for each in (b"{}", b"5", b"[]", b'{"x": "y"}', b'{"x": 1, "y": 2}', b"null")),
    *(b"[]", b'[{"id": 1}]', b"5", b"null", b'"s"', b"{'id': 1}", b"{}", b'{"ID": 4}', b' {"id": 1} '),
    b'\xef\xbb\xbf{"id": 1}',
    b'{"id": 1, "tags": ["a"]}',
    LARGE,
]
HEADERS = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: x\r\n\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream with payloads of all kinds, and headers with two values."""
    directory: Path = tmp_path_factory.mktemp("S")
    table = Table.open(directory / "table", RealDisk(sync=False))
    rows = [
        Message(seq, TS + seq * 1_000_000, b"a.%d" % (seq % 3), HEADERS if seq % 2 else b"", data)
        for seq, data in enumerate(PAYLOADS, 1)
    ]
    table.commit([table.write(columns_of(rows[:20])), table.write(columns_of(rows[20:]))])
    return directory


@pytest.fixture(scope="module")
def session(cluster: SparkCluster) -> Any:
    """A session in the Spark that runs."""
    with quiet_session("local[2]", "512m") as session:
        yield session


def both(session: Any, sql: str, **streams: StreamQuerySource) -> tuple[list[Any], list[Any]]:
    """Return the rows of a query on DuckDB and on Spark."""
    return (
        [_comparable(row) for row in run(sql, streams.get).read_all().to_pylist()],
        [_comparable(row) for row in run_on_spark(sql, streams.get, session).read_all().to_pylist()],
    )


def _comparable(value: Any) -> Any:
    """Return a value in which NaN equals itself."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


QUESTIONS = [
    "SELECT * FROM ORDERS ORDER BY seq",
    "SELECT seq, data.id, data.s, data.at, data.n, data.o.x AS x, data.other FROM ORDERS ORDER BY seq",
    "SELECT subject, count(*) AS n, sum(data.n) AS total FROM ORDERS WHERE seq <> 20 GROUP BY 1 ORDER BY 1",
    "SELECT count(*) AS n FROM ORDERS WHERE _corrupt IS NOT NULL",
    "SELECT seq FROM ORDERS WHERE subject LIKE 'a.%' AND seq BETWEEN 5 AND 9 ORDER BY 1",
    "SELECT seq FROM ORDERS WHERE subject IN ('a.0', 'a.1') AND time >= TIMESTAMP '2020-01-01' ORDER BY 1",
    "SELECT seq, headers['A'] AS a FROM ORDERS WHERE headers IS NOT NULL ORDER BY seq LIMIT 3",
    "SELECT a.seq, b.seq AS other FROM ORDERS a JOIN PLAIN b ON a.seq = b.seq + 1 ORDER BY 1 LIMIT 4",
    "WITH ORDERS AS (SELECT 1 AS one) SELECT * FROM ORDERS",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_spark_answers_as_duckdb_does(session: Any, folder: Path, question: str) -> None:
    typed = StreamQuerySource({"path": str(folder)}, SCHEMA)
    plain = StreamQuerySource({"path": str(folder), "endSequence": "10"})
    on_duckdb, on_spark = both(session, question, ORDERS=typed, PLAIN=plain)
    assert on_spark == on_duckdb
    assert on_spark


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT * FROM missing", r"The table or view `missing` cannot be found"),
        ("SELECT * FROM other.ORDERS", r"The table or view `other`.`ORDERS` cannot be found"),
        ("SELECT nothing FROM ORDERS", r"name `nothing` cannot be resolved"),
        ("SELECT seq / 0 FROM ORDERS", "Division by zero"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "the statement returns no rows: write a SELECT"),
    ],
)
def test_what_spark_refuses_is_an_error_with_its_words(
    session: Any, folder: Path, sql: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    streams = {"ORDERS": StreamQuerySource({"path": str(folder)})}
    with pytest.raises(QueryFailedError, match=words) as raised:
        run_on_spark(sql, streams.get, session).read_all()
    assert "\tat " not in str(raised.value)
    assert "+-" not in str(raised.value)
    assert "stacktrace" not in capfd.readouterr().err


async def test_the_command_writes_the_same_on_spark_as_on_duckdb(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    async with lake(tmp_path) as running:
        store = str(running.store)
        shell = Shell(running.client_url, tmp_path)
    query = "SELECT subject, count(*) AS n, max(time) AS newest FROM orders GROUP BY 1 ORDER BY 1"
    for flags in (("--format", "csv"), ("--json",), (), ("--format", "csv", "--as-of-seq", "7")):
        ran = shell("sql", "--spark", "--store", store, *flags, query)
        assert ran.code == 0, ran.err
        assert ran.out == shell.ok("sql", "--store", store, *flags, query)
        assert ran.err.startswith("starting Spark\n")
    output = tmp_path / "rows.parquet"
    flags = ("--format", "parquet", "--output", str(output))
    shell.ok("sql", "--master", "local[2]", "--store", store, *flags, "SELECT * FROM orders")
    assert pq.read_table(output).num_rows == ORDERS
    fifth = json.loads(shell.ok("sql", "--store", store, "--json", "SELECT time FROM orders WHERE seq = 5"))
    asked = ("sql", "--store", store, "--as-of-time", fifth["time"], "--format", "csv")
    count = "SELECT count(*) AS n FROM orders"
    assert shell.ok(*asked, "--spark", count) == shell.ok(*asked, count)
    assert (
        "Parquet is not text"
        in shell("sql", "--spark", "--store", store, "--format", "parquet", "SELECT 1").err
    )


def test_only_the_rows_that_are_shown_are_taken(session: Any, folder: Path) -> None:
    rows = run_on_spark("SELECT explode(sequence(1, 5000)) AS n", lambda name: None, session, 1001)
    assert rows.read_all().num_rows == 1001


def test_a_query_whose_jobs_are_cancelled_by_ctrl_c_is_interrupted(session: Any) -> None:
    def cancel() -> None:
        tracker = session.sparkContext.statusTracker()
        for pause_s in pauses():
            if tracker.getActiveStageIds():
                break
            time.sleep(pause_s)
        session.sparkContext.cancelAllJobs()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    endless = "SELECT count(*) FROM range(2000000000) a CROSS JOIN range(1000) b WHERE a.id * b.id % 7 = 3"
    with pytest.raises(KeyboardInterrupt):
        run_on_spark(endless, lambda name: None, session)
    cancelling.join(60)
