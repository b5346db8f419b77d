"""Packages of Spark that Maven has and PyPI has not: Avro and Protobuf payloads, and Delta's own reader.

`make test-spark-packages` runs them. A package that Maven lacks for this Spark is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headwater.disk import RealDisk
from headwater.spark.decoding import decode
from headwater.table import Table
from table.links import link_of
from table.samples import columns, everything

pytestmark = pytest.mark.skipif(
    not os.environ.get("TEST_SPARK_PACKAGES"),
    reason="needs packages from Maven; `make test-spark-packages` runs it",
)
VERSION = pyspark.__version__
PACKAGES = {
    "avro": f"org.apache.spark:spark-avro_2.13:{VERSION}",
    "protobuf": f"org.apache.spark:spark-protobuf_2.13:{VERSION}",
    "delta": f"io.delta:delta-spark_{'.'.join(VERSION.split('.')[:2])}_2.13:4.4.0",
}
OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "region", "type": ["null", "string"], "default": None},
    ],
}
COPIED_NS = 1_800_000_000_000_000_000
_RESOLVE = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.master("local[1]").config("spark.jars.packages", sys.argv[1]).getOrCreate().stop()
"""


@pytest.fixture
def spark(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Run a Spark with the package that a test names, if there is one; each needs a Java of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    package = PACKAGES[request.param]
    # A Spark that does not start leaves a Java behind, so another process tries it first.
    tried = subprocess.run(
        [sys.executable, "-c", _RESOLVE, package], capture_output=True, text=True, timeout=600, check=False
    )
    if tried.returncode:
        said = [line for line in tried.stderr.splitlines() if "not found" in line or "Exception" in line]
        pytest.skip(f"Maven does not provide {package}: {' '.join(said)[:300]}")
    builder = SparkSession.builder.master("local[1]").config("spark.jars.packages", package)
    more = {"spark.sql.warehouse.dir": str(tmp_path / "warehouse"), **(DELTA if "delta" in package else {})}
    for key, value in {**OPTIONS, **more}.items():
        builder = builder.config(key, value)
    running = builder.getOrCreate()
    yield running
    running.stop()
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    assert gateway is not None
    gateway.shutdown()


def decoded(spark: Any, format: str, schema: str, payloads: list[bytes]) -> list[tuple[Any, Any]]:
    """Return the value and the corrupt payload of each message."""
    rows = [(seq, bytearray(data)) for seq, data in enumerate(payloads)]
    frame = spark.createDataFrame(rows, "seq BIGINT, data BINARY")
    found = decode(frame, format, schema).orderBy("seq").collect()
    return [
        (row.data and tuple(row.data), None if row._corrupt is None else bytes(row._corrupt)) for row in found
    ]


def avro(number: int, region: str | None) -> bytes:
    """Return an order as Avro writes it."""
    if region is None:
        return zigzag(number) + zigzag(0)
    return zigzag(number) + zigzag(1) + zigzag(len(region)) + region.encode()


def zigzag(value: int) -> bytes:
    """Return a number of Avro."""
    value, out = (value << 1) ^ (value >> 63), b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


@pytest.mark.parametrize("spark", ["avro"], indirect=True)
def test_avro_is_decoded_and_the_rest_is_kept(spark: Any) -> None:
    large = "x" * (8 << 20)
    payloads = [avro(7, "eu"), avro(-1, None), b"\xff", b"", avro(1 << 40, large)]
    assert decoded(spark, "avro", json.dumps(AVRO), payloads) == [
        ((7, "eu"), None),
        ((-1, None), None),
        (None, b"\xff"),
        (None, b""),
        ((1 << 40, large), None),
    ]


def protobuf(folder: Path) -> tuple[Path, Callable[..., bytes]]:
    """Return a descriptor file of a message Order, and a function that encodes one."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate((("id", kinds.TYPE_INT64), ("region", kinds.TYPE_STRING)), 1):
        order.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    path = folder / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return path, lambda **fields: bytes(message(**fields).SerializeToString())


@pytest.mark.parametrize("spark", ["protobuf"], indirect=True)
def test_protobuf_is_decoded_and_the_rest_is_kept(spark: Any, tmp_path: Path) -> None:
    path, encode = protobuf(tmp_path)
    payloads = [encode(id=7, region="eu"), encode(id=1), b"\xff\xff"]
    found = decoded(spark, "protobuf", f"{path}:shop.Order", payloads)
    assert found[0] == ((7, "eu"), None)
    assert found[1][0][0] == 1
    assert found[2] == (None, b"\xff\xff")


@pytest.mark.parametrize("spark", ["delta"], indirect=True)
def test_spark_with_delta_reads_a_table_and_what_a_source_linked(spark: Any, tmp_path: Path) -> None:
    table, staging = Table.open(tmp_path / "table", RealDisk(sync=False)), tmp_path / "staging"
    table.commit([table.write(columns(range(1, 4)))])
    table.adopt(staging, [link_of(staging, range(500, 510)).behind(3, 0, COPIED_NS)], {})
    recipe = f"""
        SELECT base_seq + offset AS seq, subject, source, source_base + offset AS source_seq, data,
               unix_micros(coalesce(timestamp_micros(copied_micros), time)) AS time
        FROM delta.`{table.directory}` ORDER BY seq"""
    rows, expected = spark.sql(recipe).collect(), everything(table)
    assert [(row.seq, row.subject.encode(), bytes(row.data)) for row in rows] == [
        (each.seq, each.subject, each.data) for each in expected
    ]
    assert [row.source_seq for row in rows] == [None] * 3 + list(range(500, 510))
    assert [row.time for row in rows] == [each.ts // 1000 for each in expected]
    spark.sql(f"CREATE TABLE catalogued USING delta LOCATION '{table.directory}'")
    assert spark.sql("SELECT count(*) AS n FROM catalogued WHERE source = 'ORDERS'").first().n == 10
