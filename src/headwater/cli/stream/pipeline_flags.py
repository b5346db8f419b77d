"""`--where`, `--select` and `--dead-letters`: the row pipelines of a stream's sources and mirror."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from headwater.cli.session import Json, RequestRefusedError, Session
from headwater.cli.stream.defaults import DEFAULTS
from headwater.errors import SettingsError
from headwater.model.row_pipeline import KEY, RowPipeline, pipeline_for, pipelines_in, stored

Command = TypeVar("Command", bound=Callable[..., Any])

CHECKING_S = 135.0
"""How long to wait for an engine that starts Spark to check the SQL."""
_FLAGS = (
    ("where", "--where", "Spark SQL condition: store only messages of the source for which it is true."),
    ("select", "--select", "Spark SQL columns subject, data and headers: store these instead."),
    ("dead_letters", "--dead-letters", "Stream for messages that fail; it is created if it is missing."),
)
_OF_SOURCE = ("where", "select", "dead_letters", "schema")
"""What the JSON of a single source may have for its own pipeline."""


def pipeline_flags(command: Command) -> Command:
    """Give a command the flags of row pipelines."""
    metavars = {"dead_letters": "STREAM"}
    for name, flag, help_text in reversed(_FLAGS):
        command = click.option(flag, name, metavar=metavars.get(name, "SQL"), help=help_text)(command)
    return command


def with_pipelines(config: Json, flags: Mapping[str, Any]) -> Json:
    """Return a config whose metadata has the pipelines that flags and sources say, or had before."""
    config = dict(config)
    metadata = dict(config.get("metadata") or {})
    found = list(pipelines_in(metadata))
    upstreams = [dict(each) for each in config.get("sources") or ()]
    mirror = dict(config["mirror"]) if config.get("mirror") else None
    for upstream in upstreams + ([mirror] if mirror else []):
        own = {name: upstream.pop(name) for name in _OF_SOURCE if name in upstream}
        if own:
            found = _replaced(found, _read({"source": upstream["name"], **own}))
    given = {name: flags[name] for name, _, _ in _FLAGS if flags.get(name) is not None}
    if given:
        found = _changed(found, given, upstreams + ([mirror] if mirror else []))
    if not found and KEY not in metadata:
        return config
    metadata.pop(KEY, None)
    config["metadata"] = {**metadata, KEY: stored(found)} if found else metadata
    if upstreams:
        config["sources"] = upstreams
    if mirror:
        config["mirror"] = mirror
    return config


def _read(fields: Json) -> RowPipeline:
    try:
        return msgspec.convert(fields, RowPipeline)
    except msgspec.ValidationError as error:
        raise SettingsError(f"the source {fields['source']!r} has an invalid pipeline: {error}") from None


def _replaced(found: Sequence[RowPipeline], new: RowPipeline) -> list[RowPipeline]:
    return [each for each in found if each.source != new.source] + [new]


def _changed(found: list[RowPipeline], given: Json, upstreams: Sequence[Json]) -> list[RowPipeline]:
    """Return pipelines with the given flags, for the only upstream or for all."""
    if not upstreams:
        raise SettingsError("--where and --select need a source or a mirror: pass --source or --mirror")
    names = {each["name"] for each in upstreams}
    name = names.pop() if len(names) == 1 else ""
    before = pipeline_for(found, name) or RowPipeline(source=name)
    new = msgspec.structs.replace(before, **given)
    others = [each for each in found if each.source != before.source]
    # An empty condition and no columns leave every message as it is.
    return [*others, new] if new.where or new.select else others


async def ready_for(session: Session, config: Json) -> float | None:
    """Create missing streams of dead letters; return how long to wait for the declaration, None as usual."""
    pipelines = pipelines_in(config.get("metadata"))
    for name in {pipeline.dead_letters for pipeline in pipelines if pipeline.dead_letters}:
        try:
            await session.stream_info(name)
        except RequestRefusedError as error:
            if error.code != 404:
                raise
            described = {"name": name, "description": f"Dead letters of {config['name']}"}
            await session.request(f"STREAM.CREATE.{name}", {**DEFAULTS, **described})
            click.echo(f"Stream {name} was created for dead letters", err=True)
    if not pipelines:
        return None
    click.echo("Spark checks the SQL; if it has to start first, that takes up to two minutes", err=True)
    return max(CHECKING_S, session.timeout)
