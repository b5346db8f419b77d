"""Pipelines on a real Spark, run by a real engine: windows, joins, functions, pauses, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from engines import RunningEngine
from headwater.model.payload_schema import KEY, stored
from on_spark.pipeline_site import LIGHT, PATIENCE_S, PipelineSite, client_of
from waits import until

FUNCTIONS = '''
def unique(spark, inputs):
    """Return each payload once."""
    rows = inputs["VISITS"].selectExpr("CAST(data AS STRING) AS data").dropDuplicates(["data"])
    return rows.selectExpr("'unique.visit' AS subject", "data")


def nothing(spark, inputs):
    """Return no DataFrame."""
    return 1
'''


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """One engine with one runner for all tests here."""
    directory = tmp_path_factory.mktemp("pipelines")
    (directory / "flows.py").write_text(FUNCTIONS)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(directory)
    running = RunningEngine(
        directory, (*LIGHT, "--pipeline-functions", "flows:unique,flows:nothing,flows:missing")
    )
    try:
        asyncio.run(running.start())
        yield running
    finally:
        asyncio.run(running.stop())
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
async def site(engine: RunningEngine) -> AsyncIterator[PipelineSite]:
    async with client_of(engine) as found:
        yield found
        await found.clear()


def schema(**fields: str) -> dict[str, str]:
    """Return the metadata of a stream with typed payload."""
    kinds = {name: {"type": kind} for name, kind in fields.items()}
    return {KEY: stored({"type": "object", "properties": kinds})}


async def test_a_window_closes_when_the_watermark_has_passed_it(site: PipelineSite) -> None:
    await site.make("CLICKS", "clicks.>", metadata=schema(user="string", at="string"))
    await site.make("WINDOWS", "windows.>")
    await site.add(
        "WINDOWED",
        target="WINDOWS",
        subject="windows.minute",
        sql="""SELECT user, date_format(window.start, 'HH:mm') AS minute, count(*) AS clicks
               FROM (SELECT data.user, CAST(data.at AS TIMESTAMP) AS at FROM CLICKS)
                    WATERMARK at DELAY OF INTERVAL 10 SECONDS
               GROUP BY window(at, '1 minute'), user""",
    )
    early = [{"user": "ab"[n % 2], "at": f"2026-01-01T10:00:{n:02d}Z"} for n in range(30)]
    await site.publish("clicks.x", *early, {"user": "z", "at": "2026-01-01T11:00:00Z"})
    await site.has("WINDOWS", 2)
    found = [json.loads(data) for _, data in await site.messages("WINDOWS")]
    assert sorted((each["user"], each["minute"], each["clicks"]) for each in found) == [
        ("a", "10:00", 15),
        ("b", "10:00", 15),
    ]

    async def passed() -> bool:
        return str((await site.info("WINDOWED"))["watermark"]).startswith("2026-01-01T10:59:50")

    await until(passed, "the watermark", lambda: site.engine.log[-3000:], PATIENCE_S)
    assert (await site.info("WINDOWED"))["state_rows"] >= 1


async def test_two_streams_are_joined_and_lag_and_rate_are_reported(site: PipelineSite) -> None:
    await site.make("ORDERS", "orders.>", metadata=schema(id="integer", item="string"))
    await site.make("PAYMENTS", "payments.>", metadata=schema(id="integer", amount="number"))
    await site.make("PAID", "paid.>")
    await site.add(
        "JOINED",
        target="PAID",
        sql="""SELECT concat('paid.', o.data.item) AS subject, o.data.id, p.data.amount
               FROM ORDERS o JOIN PAYMENTS p ON o.data.id = p.data.id""",
    )
    await site.publish("orders.new", *({"id": n, "item": "tea"} for n in range(10)))
    await site.publish("payments.new", *({"id": n, "amount": n / 2} for n in range(5, 15)))
    await site.has("PAID", 5)
    found = await site.messages("PAID")
    assert sorted(json.loads(data)["id"] for _, data in found) == [5, 6, 7, 8, 9]
    assert {subject for subject, _ in found} == {"paid.tea"}
    await site.caught_up("JOINED")
    info = await site.shows("JOINED", "running")
    assert info["config"]["inputs"] == ["ORDERS", "PAYMENTS"]
    assert [each["read_seq"] for each in info["inputs"]] == [10, 10]
    assert info["messages_in"] == 20


async def test_a_function_of_the_operator_drops_duplicates(site: PipelineSite) -> None:
    await site.make("VISITS", "visits.>")
    await site.make("UNIQUE", "unique.>")
    await site.add("DEDUPED", target="UNIQUE", function="flows:unique", inputs=["VISITS"])
    await site.publish("visits.x", *("abcabcabd"))
    await site.has("UNIQUE", 4)
    await site.publish("visits.x", *("abcde"))
    await site.has("UNIQUE", 5)
    assert Counter(data for _, data in await site.messages("UNIQUE")) == Counter(map(json.dumps, "abcde"))


async def test_updates_are_written_as_they_change(site: PipelineSite) -> None:
    await site.make("SALES", "sales.>")
    await site.make("TOTALS", "totals.>")
    sql = "SELECT 'totals.all' AS subject, CAST(count(*) AS STRING) AS data FROM SALES"
    await site.add("TOTAL", target="TOTALS", sql=sql, output="update")
    await site.publish("sales.x", *range(7))

    async def last() -> bool:
        stored = await site.messages("TOTALS")
        return bool(stored) and stored[-1] == ("totals.all", "7")

    await until(last, "a total of 7", lambda: site.engine.log[-3000:], PATIENCE_S)
    totals = [int(data) for _, data in await site.messages("TOTALS")]
    assert totals == sorted(set(totals))


async def test_a_paused_pipeline_goes_on_without_loss_or_repetition(site: PipelineSite) -> None:
    await site.make("IN", "in.>")
    await site.make("OUT", "out.>")
    await site.add("COPY", target="OUT", sql="SELECT 'out.x' AS subject, data FROM IN")
    await site.publish("in.x", *range(20))
    await site.has("OUT", 20)
    paused = await site.request("PAUSE.COPY")
    assert paused["state"] == "paused"
    await site.publish("in.x", *range(20, 40))
    assert (await site.info("COPY"))["lag"] in (20, None)
    assert await site.count("OUT") == 20
    await site.request("RESUME.COPY")
    await site.has("OUT", 40)
    assert [data for _, data in await site.messages("OUT")] == [str(n) for n in range(40)]
    again = await site.request("CREATE.COPY", {"target": "OUT", "sql": "SELECT 1", "every_s": 0.5})
    assert "exists with another sql" in again["error"]["description"]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT sum(x FROM SAFE", "(line 1, pos 13)"),
        ("SELECT nope FROM SAFE", "line 1 pos 7"),
        ("SELECT reflect('java.lang.Runtime', 'getRuntime') AS data FROM SAFE", "function 'reflect'"),
        ("SELECT `java_method`('a', 'b') AS data FROM SAFE", "function 'java_method'"),
        ("SELECT try_reflect('a', 'b') AS data FROM SAFE", "function 'try_reflect'"),
        ("SELECT system.builtin.reflect('a', 'b') AS data FROM SAFE", "is not allowed"),
        ("SELECT IDENTIFIER('reflect')('a', 'b') AS data FROM SAFE", "is not allowed"),
        ("SELECT xpath(CAST(data AS STRING), '/a') AS data FROM SAFE", "function 'xpath'"),
        ("SELECT data FROM SAFE LATERAL VIEW reflect('a') t AS x", "function 'reflect'"),
        ("SELECT data FROM SAFE WHERE data = (SELECT reflect('a', 'b') FROM SAFE)", "function 'reflect'"),
        ("WITH c AS (SELECT reflect('a', 'b') AS data FROM SAFE) SELECT * FROM c", "function 'reflect'"),
        ("SELECT * FROM SAFE, LATERAL (SELECT * FROM parquet.`/etc/passwd`)", "is no stream"),
        ("SELECT * FROM SAFE WHERE data IN (SELECT value FROM text.`/etc/passwd`)", "is no stream"),
        ("WITH c AS (SELECT * FROM csv.`/etc/passwd`) SELECT data FROM SAFE", "is no stream"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "is no stream"),
        ("SELECT * FROM `text.x`", "is no stream"),
        ("SELECT * FROM `SAFE x`", "is no stream"),
        ("SELECT * FROM range(10)", "is not allowed"),
        ("SELECT TRANSFORM(data) USING 'cat' AS (data) FROM SAFE", "is not allowed"),
        ("INSERT INTO SAFE SELECT 1", "is not allowed"),
        ("CREATE TEMPORARY FUNCTION f AS 'a.B'", "is not allowed"),
        ("DROP TABLE SAFE", "is not allowed"),
        ("SET spark.sql.runSQLOnFiles=true", "is not allowed"),
        ("BEGIN SELECT 1; END", "is not allowed"),
        ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR"),
        ("SELECT '${env:PATH}' AS data FROM NOWHERE", "stream 'NOWHERE'"),
        ("SELECT ${env:PATH} AS data FROM SAFE", "near '$'"),
        ("SELECT 1 AS data", "reads no stream"),
        ("SELECT count(*) AS n FROM SAFE", "output mode"),
        ("SELECT * FROM SAFE_OUT", "both read and written"),
        ("SELECT * FROM QUEUE", "has retention workqueue"),
        ("SELECT data, seq AS n FROM SAFE", "columns data and n"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " AS data FROM SAFE", ""),
    ],
)
async def test_sql_that_does_more_than_select_is_refused(site: PipelineSite, sql: str, why: str) -> None:
    if "SAFE" not in [each.config.name for each in await site.js.streams_info()]:
        await site.make("SAFE", "safe.>")
        await site.make("SAFE_OUT", "safeout.>")
        await site.make("QUEUE", "queue.>", retention="workqueue")
    said = await site.refused("HOSTILE", target="SAFE_OUT", sql=sql, subject="safeout.x")
    assert why in said
    assert "/usr" not in said
    assert [each["config"]["name"] for each in (await site.request("LIST"))["pipelines"]].count(
        "HOSTILE"
    ) == 0


async def test_functions_names_and_targets_that_are_not_allowed_are_refused(site: PipelineSite) -> None:
    await site.make("ODD", "odd.>")
    await site.make("ODD_OUT", "oddout.>")
    given = {"target": "ODD_OUT", "inputs": ["ODD"]}
    assert "pipeline_functions" in await site.refused("F", function="os:system", **given)
    assert "cannot import flows:missing" in await site.refused("F", function="flows:missing", **given)
    assert "returned no DataFrame" in await site.refused("F", function="flows:nothing", **given)
    select = {"sql": "SELECT data FROM ODD"}
    assert "no name of a pipeline" in await site.refused("a.b", target="ODD_OUT", **select)
    assert "no name of a pipeline" in await site.refused("x" * 65, target="ODD_OUT", **select)
    assert "to write to" in await site.refused("F", target="NOWHERE", **select)
    assert "no column subject" in await site.refused("F", target="ODD_OUT", **select)
    assert "does not store subject" in await site.refused("F", target="ODD_OUT", subject="odd.x", **select)
    assert "there is no pipeline" in (await site.request("INFO.F"))["error"]["description"]


async def test_a_lost_checkpoint_or_a_recreated_stream_stops_a_pipeline_with_a_sentence(
    site: PipelineSite,
) -> None:
    for name in ("FIRST", "SECOND"):
        await site.make(name, f"{name.lower()}.>")
    added = await site.add("STOPS", target="SECOND", sql="SELECT 'second.x' AS subject, data FROM FIRST")
    await site.publish("first.x", 1, 2, 3)
    await site.has("SECOND", 3)
    await site.request("PAUSE.STOPS")
    folder = site.engine.store / ".pipelines" / "$G" / added["config"]["id"]
    shutil.move(folder, folder.with_name("kept"))
    await site.request("RESUME.STOPS")
    await site.shows("STOPS", "failing", "is missing, but the target has batches")
    shutil.move(folder.with_name("kept"), folder)
    await site.publish("first.x", 4)
    await site.has("SECOND", 4)
    await site.shows("STOPS", "running")
    await site.js.delete_stream("SECOND")
    await site.shows("STOPS", "failing", "'SECOND', which it writes to, does not exist")
    await site.make("SECOND", "second.>")
    await site.publish("first.x", 5)
    await site.shows("STOPS", "failing", "was deleted and re-created")
    assert await site.count("SECOND") == 0
    assert (await site.request("DELETE.STOPS"))["success"]
    assert not folder.exists()


async def test_a_trimmed_input_stops_a_pipeline_with_a_sentence(site: PipelineSite) -> None:
    await site.make("LONG", "long.>")
    await site.make("SHORT", "short.>")
    await site.add("TRIMMED", target="SHORT", sql="SELECT 'short.x' AS subject, data FROM LONG")
    await site.publish("long.x", *range(5))
    await site.caught_up("TRIMMED")
    await site.request("PAUSE.TRIMMED")
    await site.publish("long.x", *range(5, 10))
    await site.js.purge_stream("LONG", seq=8)
    await site.request("RESUME.TRIMMED")
    found = await site.shows("TRIMMED", "failing", "no longer has messages 6 to 7")
    assert "remove the pipeline and add it again, with --start-sequence" in found["problem"]
    assert "failOnDataLoss" not in found["problem"]
    assert await site.count("SHORT") == 5
