"""SQL is checked by a replicator before a stream is declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.copiers import create
from headwater.errors import ApiError
from headwater.model.row_pipeline import KEY, RowPipeline, stored
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource
from headwater.replication.work import SqlCheck
from headwater.upstreams.sql_checks import SqlChecks, declared_sql
from upstreams.piping import piping

SCHEMA = json.dumps(
    {"version": 1, "format": "json", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
)


async def test_bad_sql_is_refused_and_good_sql_is_checked_once_with_the_origin_s_schema(
    tmp_path: Path,
) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"], metadata={"headwater.schema": SCHEMA})
        asked: list[SqlCheck] = []

        def check(check: SqlCheck) -> str:
            asked.append(check)
            return "where: no such column" if check.where == "bad" else ""

        piper.check = check
        answer = await piper.declare(door, "T", where="bad")
        assert answer["error"]["description"] == "row pipeline: where: no such column"
        assert door.domain.find("T") is None
        assert "error" not in await piper.declare(door, "T", where="good")
        assert [(each.where, each.fields) for each in asked] == [
            ("bad", "`a` BIGINT"),
            ("good", "`a` BIGINT"),
        ]
        assert "error" not in await piper.declare(door, "T", where="good")
        assert "error" not in await piper.declare(door, "T", update=True, where="good")
        assert len(asked) == 2
        refused = await piper.declare(door, "T", update=True, where="bad")
        assert "no such column" in refused["error"]["description"]


async def test_a_declaration_without_a_replicator_is_refused_in_the_end() -> None:
    waits: list[str] = []
    checks = SqlChecks(lambda: waits.append("started"), lambda: "Java 17 is missing")
    config = StreamConfig(
        name="T", sources=(StreamSource(name="O"),), metadata={KEY: stored([RowPipeline(where="x")])}
    )
    with pytest.raises(
        ApiError, match=r"no replicator has checked the SQL within 0.01 s: Java 17 is missing"
    ):
        await checks.require_valid(config, None, lambda name: None, 0.01)
    assert waits == ["started"]
    assert not checks.is_waiting


def test_each_source_has_the_sql_of_its_pipeline() -> None:
    pipelines = stored([RowPipeline(source="A", where="a"), RowPipeline(where="b")])
    sources = tuple(StreamSource(name=name) for name in "ABC")
    config = StreamConfig(name="T", sources=sources, metadata={KEY: pipelines})
    found = declared_sql(config, lambda name: StreamConfig(name=name))
    assert [where for where, _, _, _ in found] == ["a", "b", "b"]
