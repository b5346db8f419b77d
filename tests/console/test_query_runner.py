"""Queries run in processes of their own, over a store that an engine wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.console import query_runner
from headwater.console.query_guard import QueryRefusedError
from headwater.console.query_heads import NOT_SERVED, heads_of
from headwater.console.query_pages import EXAMPLE
from headwater.console.query_runner import QueriedStream, QueryBounds, QueryRunner, child_environment
from headwater.console.sampler import SampledSite
from headwater.console.watched_site import WatchedSite
from headwater.errors import SettingsError
from lake.stores import ORDERS, QUICK, lake

PATIENT = QueryBounds(seconds=60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("query")

    async def write() -> None:
        async with lake(directory):
            pass

    asyncio.run(write())
    return directory / "store"


async def test_streams_are_tables_whatever_the_case_of_their_names(store: Path) -> None:
    runner = QueryRunner(str(store), bounds=PATIENT)
    answer = await runner.run(
        "SELECT subject, count(*) AS n, max(seq) AS last FROM orders GROUP BY 1 ORDER BY 1"
    )
    assert answer.columns == ("subject", "n", "last")
    assert [row[1] for row in answer.rows] == [20, 20, 20]
    assert max(row[2] for row in answer.rows) == ORDERS
    assert not answer.is_cut
    answer = await runner.run(
        'SELECT data, (SELECT count(*) FROM EMPTY) FROM "ORDERS" WHERE seq < 3 ORDER BY seq'
    )
    assert answer.rows == (("1", 0), ("2", 0))
    newest = await runner.run(EXAMPLE.format(stream='"ORDERS"'))
    assert [row[1] for row in newest.rows] == [20, 20, 20]
    assert all(str(row[2]).startswith("20") for row in newest.rows)


async def test_what_the_guard_refuses_is_shown(store: Path) -> None:
    runner = QueryRunner(str(store), bounds=PATIENT)
    with pytest.raises(QueryRefusedError, match="read_text is not allowed"):
        await runner.run("FROM read_text('/etc/hostname')")


async def test_a_query_that_does_not_end_is_killed(store: Path) -> None:
    runner = QueryRunner(str(store), bounds=QueryBounds(seconds=3))
    with pytest.raises(QueryRefusedError, match="took longer than 3 seconds"):
        await runner.run(
            "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range % 7 = b.range"
        )


async def test_more_queries_than_allowed_at_once_are_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_runner, "AT_ONCE", 1)
    runner = QueryRunner(str(store), bounds=PATIENT)
    asked = [asyncio.create_task(runner.run("SELECT 1")) for _ in range(query_runner.AT_ONCE + 1)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(outcome, QueryRefusedError) for outcome in outcomes].count(True) == 1


async def test_a_result_that_is_too_large_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_runner, "MOST_OUTPUT_BYTES", 1000)
    with pytest.raises(QueryRefusedError, match="too large"):
        await QueryRunner(str(store), bounds=PATIENT).run("SELECT repeat('x', 100) FROM range(100)")


def test_a_store_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no store"):
        QueryRunner(str(tmp_path / "none"))


def test_without_duckdb_the_console_does_not_start_with_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_runner, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="queries need DuckDB"):
        QueryRunner(str(tmp_path))


def test_the_process_of_a_query_gets_credentials_only_for_a_bucket() -> None:
    environ = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "HEADWATER_PASSWORD": "p"}
    assert child_environment(environ, "/store") == {"PATH": "/bin"}
    assert child_environment(environ, "s3://lake") == {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s"}


async def test_a_query_sees_what_is_not_in_the_table_yet_or_says_what_is_missing(tmp_path: Path) -> None:
    async with lake(tmp_path) as running:
        await running.stop()
        running.options = tuple("3600" if each == QUICK[1] else each for each in running.options)
        await running.start()
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        for _ in range(5):
            await js.publish("orders.new", b"new")
        await js.delete_msg("ORDERS", 1)
        site = SampledSite(WatchedSite("lake", ConnectionSettings(server=running.client_url, timeout=60)))
        await site.read()
        await site.connection.close()
        await client.close()
        runner = QueryRunner(str(running.store), bounds=PATIENT)
        sql = "SELECT count(*), max(seq) FROM orders"
        heads = heads_of([site], sql)
        whole = await runner.run(sql, (), heads)
        assert whole.rows == ((ORDERS + 4, ORDERS + 5),)
        assert whole.reads == (QueriedStream("ORDERS", ORDERS + 5, ORDERS + 5, ""),)
        alone = await runner.run(sql)
        assert [(read.through, read.last_seq, read.why) for read in alone.reads] == [
            (ORDERS, None, NOT_SERVED)
        ]
        for head in heads:
            head["options"] = {"server": "nats://127.0.0.1:1"}
        lonely = await runner.run(sql, (), heads)
        assert lonely.rows[0][1] == ORDERS
        [read] = lonely.reads
        assert (read.through, read.last_seq) == (ORDERS, ORDERS + 5)
        assert "its server cannot be asked" in read.why
