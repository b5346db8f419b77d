"""The row pipelines of a stream: Spark SQL over the messages of a source or mirror, in the stream's metadata.

Any client can declare them: the metadata key `headwater.row_pipeline` holds
`{"version": 1, "pipelines": [{"source": "ORDERS", "where": "…", "select": "…", "dead_letters": "…"}]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headwater.errors import SettingsError
from headwater.model.names import valid_stream_name
from headwater.model.payload_schema import type_of

KEY = "headwater.row_pipeline"
VERSION = 1
LONGEST_SQL = 32 << 10
"""The most characters of a `where` or a `select`."""


class RowPipeline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What happens to the messages of one origin before they are stored."""

    source: str = ""
    """The name of the origin's stream; empty for every source and mirror without a pipeline of its own."""
    where: str = ""
    """A condition; messages for which it is not true are left out."""
    select: str = ""
    """The columns of the messages that are stored instead; empty leaves them as they are."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the origin's payload, if the origin itself has none or another one."""
    dead_letters: str = ""
    """The stream for messages that fail; without one a failed message stops the copy."""

    def __hash__(self) -> int:
        return hash((self.source, self.where, self.select, self.dead_letters))


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    pipelines: tuple[RowPipeline, ...]


_decoder = msgspec.json.Decoder(_Stored)
_encoder = msgspec.json.Encoder()


def stored(pipelines: Sequence[RowPipeline]) -> str:
    """Return pipelines as the metadata of a stream holds them; raise if they are invalid."""
    check(pipelines)
    return _encoder.encode(_Stored(VERSION, tuple(pipelines))).decode()


def pipelines_in(metadata: Mapping[str, str] | None) -> tuple[RowPipeline, ...]:
    """Return the pipelines in a stream's metadata; raise if they are invalid."""
    text = (metadata or {}).get(KEY)
    if text is None:
        return ()
    try:
        version = msgspec.json.decode(text, type=dict[str, Any]).get("version")
        if version != VERSION:
            raise SettingsError(f"the metadata {KEY} has version {version}; this release knows {VERSION}")
        found = _decoder.decode(text).pipelines
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise SettingsError(f"the metadata {KEY} is not a list of pipelines: {error}") from None
    check(found)
    return found


def check(pipelines: Sequence[RowPipeline]) -> None:
    """Raise if pipelines are invalid, as far as that is known without Spark."""
    for pipeline in pipelines:
        if not (pipeline.where.strip() or pipeline.select.strip()):
            raise SettingsError(f"a pipeline in {KEY} needs a where or a select")
        if max(len(pipeline.where), len(pipeline.select)) > LONGEST_SQL:
            raise SettingsError(f"the SQL of a pipeline has more than {LONGEST_SQL:,} characters")
        if pipeline.dead_letters and not valid_stream_name(pipeline.dead_letters):
            raise SettingsError(f"{pipeline.dead_letters!r} is not the name of a stream")
        if pipeline.schema is not None:
            type_of(pipeline.schema)
    named = [pipeline.source for pipeline in pipelines]
    if len(set(named)) < len(named):
        raise SettingsError(f"{KEY} has several pipelines for one source")


def pipeline_for(pipelines: Iterable[RowPipeline], source: str) -> RowPipeline | None:
    """Return the pipeline of a source or mirror by the name of its origin."""
    by_source = {pipeline.source: pipeline for pipeline in pipelines}
    return by_source.get(source) or by_source.get("")
