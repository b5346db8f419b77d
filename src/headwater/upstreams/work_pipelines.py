"""Adds the row pipeline of an upstream to its planned ranges: SQL, the payload's type, and dead letters."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from headwater.control.domain import Domain
from headwater.errors import Error
from headwater.model.payload_schema import schema_in, spark_fields
from headwater.model.row_pipeline import RowPipeline
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource
from headwater.replication.work import DeadLetters, PlanRequest, WorkPipeline, exchangeable
from headwater.upstreams.dead_letter_box import DeadLetterError, missing_text
from headwater.upstreams.leases import Planned
from headwater.upstreams.upstream import Upstream

OLD_REPLICATOR = (
    "the replicator is of an older release, which cannot run the stream's row pipeline: update it"
)


class PipelineError(Error):
    """The pipeline of an upstream cannot run."""

    retryable = True


class WorkPipelines:
    """Adds pipelines to the ranges of an account's upstreams."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def require_usable(self, upstream: Upstream, request: PlanRequest) -> None:
        """Raise if nothing of an upstream may be copied: never without its pipeline."""
        if upstream.problem:
            raise PipelineError(upstream.problem)
        if upstream.pipeline is not None and not request.has_sql:
            raise PipelineError(OLD_REPLICATOR)

    def added(self, upstream: Upstream, planned: Planned) -> Planned:
        """Return planned ranges with the upstream's pipeline, as many as fit into a plan."""
        pipeline = upstream.pipeline
        if pipeline is None or not planned.works:
            return planned
        origin = self._domain.find(upstream.source.name) if upstream.source.external is None else None
        config = upstream.target.config
        piped = WorkPipeline(
            where=pipeline.where,
            select=pipeline.select,
            fields=payload_fields(pipeline, config, origin.config if origin is not None else None),
            origin=upstream.source.name,
            most_bytes=max(config.max_msg_size, 0),
            mirrored=upstream.mirrored,
            dead=self._dead_letters(pipeline),
        )
        works = [msgspec.structs.replace(work, pipeline=piped) for work in planned.works]
        return replace(planned, works=exchangeable(works))

    def _dead_letters(self, pipeline: RowPipeline) -> DeadLetters | None:
        if not pipeline.dead_letters:
            return None
        stream = self._domain.find(pipeline.dead_letters)
        if stream is None:
            raise DeadLetterError(missing_text(pipeline.dead_letters))
        replica = stream.replica
        return DeadLetters(
            stream=stream.name, staging=replica.staging.address, compression=replica.compression
        )


def payload_fields(pipeline: RowPipeline, target: StreamConfig, origin: StreamConfig | None) -> str:
    """Return the fields of the payload as Spark's DDL; empty if there is no schema, and it is text.

    The pipeline's own schema comes first, then the origin's. Of a remote origin the target knows it.
    """
    schema = pipeline.schema
    if schema is None:
        schema = schema_in((origin or target).metadata)
    if schema is None:
        return ""
    return spark_fields(schema)


def origin_of(source: StreamSource, domain: Domain) -> StreamConfig | None:
    """Return the config of an origin of the same engine, if it exists."""
    stream = domain.find(source.name) if source.external is None else None
    return stream.config if stream is not None else None
