"""Row pipelines as real Spark jobs: conditions, selected columns, several results, and failed messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.replication.spark import SparkCluster
from headwater.replication.work import DeadLetters, Receipt, Work, WorkPipeline
from replication.origins import site_of
from replication.works import adopted_by, brought, file_of, removed_of, tail_of, work_of

FIELDS = "`id` BIGINT, `amount` DOUBLE, `region` STRING, `items` ARRAY<STRUCT<`sku`: STRING, `n`: BIGINT>>"
SOURCE = ("ORDERS", ">", ">", "I")


def order(seq: int, **changed: Any) -> Message:
    body = {"id": seq, "amount": seq * 1.5, "region": f"r{seq % 3}", "items": [], **changed}
    return Message(
        seq, 1_790_000_000_000_000_000 + seq, b"orders.%d" % (seq % 5), b"", json.dumps(body).encode()
    )


def raw(seq: int, data: bytes, headers: bytes = b"") -> Message:
    return Message(seq, 1_790_000_000_000_000_000 + seq, b"orders.raw", headers, data)


def piped(messages: list[Message], **fields: Any) -> Work:
    """Return the work of a pipeline over messages in a tail."""
    names = ("where", "select", "fields", "most_bytes", "mirrored", "dead")
    pipeline = {"fields": FIELDS, "origin": "ORDERS"} | {k: fields.pop(k) for k in names if k in fields}
    if "mirrored" not in pipeline:
        fields.setdefault("source_header", SOURCE)
    usual = {
        "stop_seq": messages[-1].seq,
        "tail": tail_of(messages),
        "mirrored": pipeline.get("mirrored", False),
    }
    return work_of(**{**usual, **fields}, pipeline=WorkPipeline(**pipeline))


def run(cluster: SparkCluster, work: Work) -> Receipt:
    (receipt,) = cluster.run([work])
    return receipt


def datas(receipt: Receipt) -> list[tuple[int, bytes, bytes]]:
    return [(m.seq, m.subject, m.data) for m in brought(receipt)]


def test_a_condition_over_the_payload_keeps_messages_as_they_are(cluster: SparkCluster) -> None:
    messages = [order(seq) for seq in range(1, 101)]
    receipt = run(cluster, piped(messages, where="data.amount > 100 AND subject <> 'orders.0'"))
    kept = [m for m in messages if m.seq * 1.5 > 100 and m.seq % 5]
    assert datas(receipt) == [(m.seq, m.subject, m.data) for m in kept]
    assert [m.ts for m in brought(receipt)] == [m.ts for m in kept]
    assert (receipt.through, receipt.read, receipt.error) == (100, 100, "")
    line = header_block.get(brought(receipt)[0].headers, b"Nats-Stream-Source")
    assert line == b"ORDERS %d > > %s I" % (kept[0].seq, kept[0].subject)


def test_a_select_changes_subject_and_data(cluster: SparkCluster) -> None:
    messages = [order(seq) for seq in range(1, 4)]
    select = "concat('big.', data.region) AS subject, to_json(struct(data.id AS n)) AS data"
    receipt = run(cluster, piped(messages, select=select))
    assert datas(receipt) == [(seq, b"big.r%d" % (seq % 3), b'{"n":%d}' % seq) for seq in range(1, 4)]


def test_one_message_becomes_several_none_or_one(cluster: SparkCluster) -> None:
    items = [[{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], [], [{"sku": "c", "n": 3}]]
    ids = header_block.build([(b"Nats-Msg-Id", b"x"), (b"Nats-Rollup", b"sub"), (b"A", b"1"), (b"A", b"2")])
    messages = [order(seq, items=each)._replace(headers=ids) for seq, each in enumerate(items, 1)]
    select = (
        "inline(transform(data.items, i -> struct(concat('sku.', i.sku) AS subject, to_json(i) AS data)))"
    )
    receipt = run(cluster, piped(messages, select=select))
    assert datas(receipt) == [
        (1, b"sku.a", b'{"sku":"a","n":1}'),
        (1, b"sku.b", b'{"sku":"b","n":2}'),
        (3, b"sku.c", b'{"sku":"c","n":3}'),
    ]
    headers = [m.headers for m in brought(receipt)]
    assert [header_block.get(each, b"Nats-Msg-Id") for each in headers] == [b"x", b"x-2", b"x"]
    assert [header_block.get(each, b"Nats-Rollup") for each in headers] == [None, None, b"sub"]
    assert all(each.count(b"\r\nA: ") == 2 for each in headers)


@pytest.mark.parametrize(
    ("select", "found"),
    [
        ("explode(data.items.sku) AS data", [(1, b"a"), (1, b"b")]),
        ("explode_outer(data.items.sku) AS data, 'x' AS subject", [(1, b"a"), (1, b"b")]),
        ("posexplode(map('k', 'v')) AS (headers, subject, data)", None),
        ("explode(map('k', 'v')) AS (subject, data)", [(1, b"v"), (2, b"v")]),
    ],
)
def test_each_generator_makes_messages(
    cluster: SparkCluster, select: str, found: list[tuple[int, bytes]] | None
) -> None:
    messages = [order(1, items=[{"sku": "a"}, {"sku": "b"}]), order(2)]
    receipt = run(cluster, piped(messages, select=select, dead=None))
    if found is None:
        assert "headers must be" in receipt.error
    elif "outer" in select:
        assert datas(receipt)[:2] == [(1, b"x", b"a"), (1, b"x", b"b")]
        assert receipt.stopped == "message 2: the data is null"
    else:
        assert [(seq, data) for seq, _, data in datas(receipt)] == found


def test_failed_messages_are_dead_letters_with_the_error(cluster: SparkCluster, tmp_path: Path) -> None:
    headers = header_block.build([(b"Nats-Msg-Id", b"i"), (b"Nats-TTL", b"1s"), (b"A", b"1"), (b"A", b"2")])
    messages = [
        order(1),
        raw(2, b"not json", headers),
        order(3, region="7"),
        order(4, region="a b"),
        order(5, region=None),
        raw(6, b'{"id": "text"}'),
        raw(7, b"\xff"),
        order(8, region="0"),
    ]
    region = "CASE WHEN data.id IN (3, 8) THEN string(1 / int(data.region)) ELSE data.region END"
    select = f"concat('r.', {region}) AS subject"
    dead = DeadLetters(stream="DEAD", staging=str(tmp_path))
    receipt = run(cluster, piped(messages, where="CAST(data.id AS STRING) < 9", select=select, dead=dead))
    assert [m.seq for m in brought(receipt)] == [1, 3]
    assert receipt.dead is not None
    assert receipt.dead.target == "DEAD"
    letters = {m.seq: m for m in brought(receipt.dead)}
    assert sorted(letters) == [2, 4, 5, 6, 7, 8]
    assert [letters[seq].data for seq in (2, 7)] == [b"not json", b"\xff"]
    errors = {seq: header_block.get_str(m.headers, b"Headwater-Error") for seq, m in letters.items()}
    assert errors[4] == "'r.a b' is not a valid subject of a message"
    assert errors[5] == "the subject is null"
    assert errors[2] == errors[6] == errors[7] == "the payload does not match its schema, or is not text"
    assert errors[8] is None
    assert "[DIVIDE_BY_ZERO]" in receipt.errors[8] == receipt.errors[0]
    block = letters[2].headers
    named = [header_block.get(block, name) for name in (b"Headwater-Origin", b"Headwater-Origin-Sequence")]
    assert named == [b"ORDERS", b"2"]
    assert header_block.get(block, b"Headwater-Origin-Msg-Id") == b"i"
    assert block.count(b"\r\nA: ") == 2
    assert b"Nats-" not in block


def test_without_dead_letters_a_range_ends_before_the_first_failed_message(cluster: SparkCluster) -> None:
    messages = [order(seq, region="x" if seq == 40 else "1") for seq in range(1, 101)]
    receipt = run(cluster, piped(messages, where="CAST(data.region AS INT) = 1"))
    assert [m.seq for m in brought(receipt)] == list(range(1, 40))
    assert receipt.through == 39
    assert receipt.stopped.startswith("message 40: [CAST_INVALID_INPUT] The value 'x'")


def test_files_with_removed_messages_are_staged_for_adoption(cluster: SparkCluster, tmp_path: Path) -> None:
    messages = [order(seq) for seq in range(1, 20_001)]
    work = piped(
        messages,
        tail=b"",
        files=(file_of(tmp_path, messages),),
        removed=removed_of([3, 4]),
        where="data.id % 5 = 3",
        select="to_json(struct(data.id)) AS data, headers",
        adoptive=True,
        staging=str(tmp_path / "staging"),
    )
    receipt = run(cluster, work)
    wanted = [m for m in messages if m.seq % 5 == 3 and m.seq not in (3, 4)]
    found = adopted_by(receipt, tmp_path / "staging")
    assert [json.loads(m.data)["id"] for m in found] == [m.seq for m in wanted]
    assert [m.seq for m in found] == list(range(len(wanted)))


def test_a_mirror_keeps_sequences_and_refuses_generators(cluster: SparkCluster) -> None:
    messages = [order(seq) for seq in range(1, 11)]
    receipt = run(
        cluster, piped(messages, where="seq % 2 = 0", select="upper(subject) AS subject", mirrored=True)
    )
    assert [(m.seq, m.ts, m.subject) for m in brought(receipt)] == [
        (m.seq, m.ts, m.subject.upper()) for m in messages if m.seq % 2 == 0
    ]
    refused = run(cluster, piped(messages, select="explode(array('a')) AS data", mirrored=True))
    assert "a mirror keeps the sequences" in refused.error


def test_without_a_schema_the_payload_is_text_and_bytes(cluster: SparkCluster) -> None:
    messages = [raw(1, b'{"a": 5}'), raw(2, b"\xff\xfe"), raw(3, b"")]
    text = run(cluster, piped(messages, fields="", where="get_json_object(data, '$.a') > 3"))
    assert datas(text) == [(1, b"orders.raw", b'{"a": 5}')]
    assert text.stopped == "message 2: the payload does not match its schema, or is not text"
    bytes_ = run(cluster, piped(messages, fields="", select="reverse(payload) AS data"))
    assert bytes_.error or [data for _, _, data in datas(bytes_)][1:] == [b"\xfe\xff", b""]


def test_headers_are_read_and_written(cluster: SparkCluster) -> None:
    block = header_block.build([(b"A", b"1"), (b"A", b"2"), (b"B", b"x")])
    messages = [raw(1, b"1", block), raw(2, b"2"), raw(3, b"3", header_block.build([(b"B", b"y")]))]
    work = piped(
        messages,
        fields="",
        where="headers['B'][0] = 'x' OR headers IS NULL",
        select="map('C', array(headers['A'][1], 'z')) AS headers",
    )
    found = brought(run(cluster, work))
    assert [m.seq for m in found] == [1, 2]
    assert header_block.to_dict(found[0].headers)[b"C"] == [b"2", b"z"]  # type: ignore[index]
    assert header_block.to_dict(found[1].headers)[b"C"] == [b"z"]  # type: ignore[index]


def test_hostile_headers_and_large_results_are_refused(cluster: SparkCluster, tmp_path: Path) -> None:
    dead = DeadLetters(stream="DEAD", staging=str(tmp_path))
    messages = [
        order(seq, region="a\r\nb" if seq == 2 else "c" * (1 + 2000 * (seq == 3))) for seq in range(1, 5)
    ]
    work = piped(
        messages, select="map('X', data.region) AS headers, data.region AS data", most_bytes=1500, dead=dead
    )
    receipt = run(cluster, work)
    assert [m.seq for m in brought(receipt)] == [1, 4]
    assert receipt.dead is not None
    errors = [header_block.get_str(m.headers, b"Headwater-Error") for m in brought(receipt.dead)]
    assert errors == ["the header X has a line end", "the stream takes messages of up to 1,500 bytes"]


def test_a_large_message_passes_and_too_many_results_do_not(cluster: SparkCluster, tmp_path: Path) -> None:
    large = json.dumps({"id": 1, "region": "x" * (8 << 20)}).encode()
    dead = DeadLetters(stream="DEAD", staging=str(tmp_path / "dead"))
    messages = [raw(1, large), raw(2, b"{}")]
    receipt = run(cluster, piped(messages, where="length(data.region) > 9", staging=str(tmp_path), dead=dead))
    assert [m.data for m in brought(receipt, tmp_path)] == [large]
    count = "explode(sequence(1, CASE data.id WHEN 1 THEN 20000 ELSE 2 END))"
    work = piped([order(1), order(2)], select=f"{count} AS data", dead=dead)
    assert "data must be string or binary, not int" in run(cluster, work).error
    texts = (
        "explode(transform(sequence(1, CASE data.id WHEN 1 THEN 20000 ELSE 2 END), i -> string(i))) AS data"
    )
    some = run(cluster, piped([order(1), order(2)], select=texts, dead=dead))
    assert [m.seq for m in brought(some)] == [2, 2]
    assert some.dead is not None
    assert [m.seq for m in brought(some.dead)] == [1]
    big = "explode(array_repeat(repeat('x', 1000000), CASE data.id WHEN 1 THEN 50 ELSE 2 END)) AS data"
    huge = run(cluster, piped([order(1), order(2)], select=big, dead=dead, staging=str(tmp_path)))
    found = brought(huge, tmp_path)
    assert len(found) == 2
    assert all(b"\r\nNats-Stream-Source: ORDERS 2 " in m.headers for m in found)
    assert huge.dead is not None
    assert [m.seq for m in brought(huge.dead)] == [1]


def test_ranges_with_and_without_pipelines_share_a_plan(cluster: SparkCluster) -> None:
    messages = [order(seq) for seq in range(1, 10)]
    plain = work_of(id="plain", stop_seq=9, tail=tail_of(messages))
    bad = piped(messages, id="bad", where="data.nothing > 1")
    works = [piped(messages, id="a", where="seq > 5"), plain, bad, piped(messages, id="b", where="seq < 3")]
    receipts = cluster.run(works)
    assert [receipt.work for receipt in receipts] == ["a", "plain", "bad", "b"]
    assert [len(brought(receipts[index])) for index in (0, 1, 3)] == [4, 9, 2]
    assert "[FIELD_NOT_FOUND]" in receipts[2].error


@pytest.mark.parametrize(
    ("where", "select", "reason"),
    [
        (
            "data.amount >> > 1",
            "",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near '>'. SQLSTATE: 42601 (line 1, pos 15)",
        ),
        ("data.amounts > 1", "", "line 1 pos 0"),
        ("", "data.id AS data", "data must be string or binary, not bigint"),
        ("", "data AS data", "use to_json"),
        ("", "data.region AS region", "'region' is not a column of a message"),
        ("", "*", "* is not allowed"),
        ("", "subject FROM text.`/etc/passwd`", "only a list of columns"),
        ("", "(SELECT max(value) FROM text.`/etc/passwd`) AS data", "subqueries"),
        ("seq IN (SELECT 1)", "", "subqueries"),
        ("EXISTS (SELECT 1)", "", "subqueries"),
        ("count(*) > 1", "", "no aggregates"),
        ("", "max(subject) AS subject", "no aggregates"),
        ("", "string(row_number() OVER (ORDER BY seq)) AS data", "window functions"),
        ("reflect('java.lang.System', 'exit', 1) = ''", "", "the function reflect is not allowed"),
        ("java_method('java.lang.Runtime', 'x') = ''", "", "the function java_method is not allowed"),
        ("rand() > 0.5", "", "the function rand is not allowed"),
        ("time < current_timestamp", "", "not allowed"),
        ("time < now()", "", "the function now is not allowed"),
        ("time < timestamp 'now'", "", "differ from run to run"),
        ("", "uuid() AS data", "the function uuid is not allowed"),
        ("", "xpath_string(string(payload), '/a') AS data", "the function xpath_string is not allowed"),
        ("identifier('reflect')('java.lang.System', 'exit', 1) = ''", "", "not allowed"),
        ("seq", "", "it must be a condition, not bigint"),
        ("", "stack(2, 'a', 'b') AS data", "use explode, posexplode, inline"),
        ("nothing(seq)", "", "nothing is not a function of Spark"),
        ("seq = :p", "", "not allowed"),
        ("__seq > 1", "", "a message has no column __seq"),
    ],
)
def test_sql_that_is_refused(cluster: SparkCluster, where: str, select: str, reason: str) -> None:
    assert reason in cluster.row_jobs.check((where, select, FIELDS, False))


async def test_messages_of_a_nats_server_pass_through_a_pipeline(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    dead = DeadLetters(stream="DEAD", staging=str(tmp_path))
    async with site_of("nats-server", tmp_path) as site:
        await site.make(allow_direct=True)
        for seq in range(1, 61):
            body = b"not JSON" if seq == 9 else order(seq).data
            await site.publish(f"orders.{seq % 2}", body, {"Kind": "even"} if seq % 2 == 0 else None)
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq": 5}')
        select = (
            "concat(subject, '.', coalesce(headers['Kind'][0], 'odd')) AS subject, "
            "string(100 DIV (data.id - 7)) AS data"
        )
        work = piped(
            [order(60)], origin=site.origin(), tail=b"", where="data.id < 11", select=select, dead=dead
        )
        receipt = await asyncio.to_thread(run, cluster, work)
    kept = [seq for seq in range(1, 11) if seq not in (5, 7, 9)]
    named = {seq: b"orders.0.even" if seq % 2 == 0 else b"orders.1.odd" for seq in kept}
    assert datas(receipt) == [(seq, named[seq], b"%d" % int(100 / (seq - 7))) for seq in kept]
    assert (receipt.through, receipt.read, receipt.error) == (60, 59, "")
    assert receipt.dead is not None
    assert [m.seq for m in brought(receipt.dead)] == [7, 9]
    assert "[DIVIDE_BY_ZERO]" in receipt.errors[7]
