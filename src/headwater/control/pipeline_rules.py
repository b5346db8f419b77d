"""Which row pipelines a stream may declare, as far as that is known without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors import ApiError, SettingsError, api_error
from headwater.model.row_pipeline import pipelines_in
from headwater.model.stream import StreamConfig


def check_pipelines(config: StreamConfig, existing: Mapping[str, StreamConfig]) -> None:
    """Refuse pipelines that are invalid, or whose dead letters have no place."""
    try:
        pipelines = pipelines_in(config.metadata)
    except SettingsError as error:
        raise _bad(str(error)) from None
    upstreams = ([config.mirror] if config.mirror is not None else []) + list(config.sources)
    names = {upstream.name for upstream in upstreams}
    for pipeline in pipelines:
        if not names or (pipeline.source and pipeline.source not in names):
            raise _bad(f"the stream has no source or mirror {pipeline.source!r} for its row pipeline")
        if pipeline.dead_letters:
            _check_dead_letters(config, pipeline.dead_letters, existing)


def _check_dead_letters(config: StreamConfig, name: str, existing: Mapping[str, StreamConfig]) -> None:
    if name not in existing or name == config.name:
        raise _bad(f"the stream of dead letters {name} does not exist: create it first")
    if existing[name].mirror is not None:
        raise _bad(f"the stream of dead letters {name} is a mirror, which takes nothing else")
    if name in _origins(config, existing):
        raise _bad(f"the stream of dead letters {name} is an origin of the stream: they would never end")


def _origins(config: StreamConfig, existing: Mapping[str, StreamConfig]) -> set[str]:
    """Return the streams of this account that a stream copies from, directly or through others."""
    found: set[str] = set()
    to_visit = [config]
    while to_visit:
        node = to_visit.pop()
        upstreams = ([node.mirror] if node.mirror is not None else []) + list(node.sources)
        for name in {each.name for each in upstreams if each.external is None} - found:
            found.add(name)
            if name in existing:
                to_visit.append(existing[name])
    return found


def _bad(err: str) -> ApiError:
    return api_error("bad_config", err=err)
