"""Payloads become typed columns by Spark's own functions; rows that do not parse are kept apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headwater.spark
from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.model.message import Message
from headwater.replication.spark import SparkCluster
from headwater.table import Table
from table.samples import TS, columns_of

LARGE = b'{"id": 6, "amount": 1.0, "note": "' + b"x" * (8 << 20) + b'"}'
PAYLOADS = [
    b'{"id": 1, "amount": 12.5, "tags": ["a", "b"]}',
    b'{"id": 2, "amount": null, "other": {"x": 1}}',
    b"plain text",
    b"\xff\xfe",
    b"",
    LARGE,
    b'{"id": "not a number"}',
    b"8,2.5",
]


@pytest.fixture(scope="module")
def stream(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A stream with payloads of all kinds, and a header with two values."""
    folder: Path = tmp_path_factory.mktemp("S")
    table = Table.open(folder / "table", RealDisk(sync=False))
    headers = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
    messages = [Message(seq, TS + seq, b"orders", headers, data) for seq, data in enumerate(PAYLOADS, 1)]
    table.commit([table.write(columns_of(messages))])
    spark = SparkSession.builder.getOrCreate()
    return spark.read.format("headwater").load(str(folder))


def corrupt(frame: DataFrame) -> dict[int, bytes]:
    """Return the payloads that did not parse, by sequence."""
    return {row.seq: bytes(row._corrupt) for row in frame.where("_corrupt IS NOT NULL").collect()}


def test_json_is_decoded_by_a_schema_and_the_rest_is_kept(stream: DataFrame) -> None:
    schema: dict[str, Any] = {
        "properties": {
            "id": {"type": "integer"},
            "amount": {"type": "number"},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "other": {},
        }
    }
    frame = headwater.spark.decode(stream, "json", schema)
    assert frame.columns == ["seq", "subject", "time", "nanos", "headers", "data", "_corrupt"]
    rows = frame.where("_corrupt IS NULL").selectExpr(
        "seq", "data.id", "data.amount", "data.tags", "data.other", "length(data.note)", "headers['A']"
    )
    assert [tuple(row) for row in rows.orderBy("seq").collect()] == [
        (1, 1, 12.5, ["a", "b"], None, None, ["1", "2"]),
        (2, 2, None, None, '{"x":1}', None, ["1", "2"]),
        (6, 6, 1.0, None, None, 8 << 20, ["1", "2"]),
    ]
    assert corrupt(frame) == {seq: PAYLOADS[seq - 1] for seq in (3, 4, 5, 7, 8)}
    assert frame.where("data IS NULL").count() == 5


def test_json_is_inferred_and_text_and_csv_are_decoded(stream: DataFrame) -> None:
    inferred = headwater.spark.decode(stream.where("seq <= 2"), "json")
    found = inferred.selectExpr("data.id", "data.amount", "data.other.x").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, 12.5, None), (2, None, 1)]
    text = headwater.spark.decode(stream, "text")
    assert corrupt(text) == {4: PAYLOADS[3]}
    assert [row.data for row in text.where("seq IN (3, 5)").orderBy("seq").collect()] == ["plain text", ""]
    csv = headwater.spark.decode(stream.where("seq IN (4, 8)"), "csv", "id BIGINT, amount DOUBLE")
    assert [tuple(row.data) for row in csv.where("data IS NOT NULL").collect()] == [(8, 2.5)]
    assert corrupt(csv) == {4: PAYLOADS[3]}


def test_formats_of_missing_packages_name_the_package(stream: DataFrame, tmp_path: Path) -> None:
    avro = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    descriptor = tmp_path / "order.desc"
    descriptor.write_bytes(b"")
    with pytest.raises(SettingsError, match=r"--packages org.apache.spark:spark-avro_2.13:4"):
        headwater.spark.decode(stream, "avro", avro)
    with pytest.raises(SettingsError, match=r"--packages org.apache.spark:spark-protobuf_2.13:4"):
        headwater.spark.decode(stream, "protobuf", f"{descriptor}:Order")
    with pytest.raises(SettingsError, match="there is no descriptor file"):
        headwater.spark.decode(stream, "protobuf", "missing.desc:Order")
