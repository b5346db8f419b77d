"""Ranges of an upstream with a pipeline carry it, and no replicator copies them without."""

from __future__ import annotations

import json
from pathlib import Path

from control.copiers import create, publish
from headwater.model.payload_schema import KEY
from headwater.model.row_pipeline import RowPipeline
from headwater.model.stream import StreamConfig
from headwater.upstreams.work_pipelines import OLD_REPLICATOR, payload_fields
from upstreams.piping import piping

FIRST: dict[str, object] = {"type": "object", "properties": {"a b": {"type": "integer"}}}
SECOND: dict[str, object] = {"type": "object", "properties": {"c": {"type": "string"}}}


def with_schema(name: str, schema: dict[str, object]) -> StreamConfig:
    return StreamConfig(
        name=name, metadata={KEY: json.dumps({"version": 1, "format": "json", "schema": schema})}
    )


def test_the_payload_s_type_is_the_pipeline_s_own_else_the_origin_s_else_the_target_s() -> None:
    target, origin = with_schema("T", FIRST), with_schema("O", SECOND)
    assert (
        payload_fields(RowPipeline(where="x", schema=FIRST), StreamConfig(name="T"), origin) == "`a b` BIGINT"
    )
    assert payload_fields(RowPipeline(where="x"), target, origin) == "`c` STRING"
    assert payload_fields(RowPipeline(where="x"), target, None) == "`a b` BIGINT"
    assert payload_fields(RowPipeline(where="x"), target, StreamConfig(name="O")) == ""


async def test_an_older_replicator_is_not_given_work_with_a_pipeline(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 3)
        await piper.declare(door, "T", where="x")
        while not piper.works:
            await piper.tick()
        assert {work.pipeline.where for work in piper.works if work.pipeline} == {"x"}
        await publish(door, "o", 3)
        piper.has_sql = False
        assert (await piper.plan()).works == ()
        error = door.upstreams.of("T")[0].error
        assert error is not None
        assert error.description == OLD_REPLICATOR


async def test_a_pipeline_of_a_newer_release_is_never_left_out(tmp_path: Path) -> None:
    async with piping(tmp_path) as (door, piper):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 3)
        await piper.declare(door, "T", where="x")
        upstream = door.upstreams.of("T")[0]
        upstream.problem, upstream.pipeline = "the metadata has version 2", None
        assert (await piper.plan()).works == ()
        assert upstream.error is not None
        assert upstream.error.description == "the metadata has version 2"
