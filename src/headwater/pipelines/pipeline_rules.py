"""The rules for a pipeline that a client declares; what only Spark knows is checked by the runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.model.names import valid_stream_name
from headwater.model.stream import Retention, StreamConfig
from headwater.model.subject import matches, valid_literal
from headwater.model.times import parse_time
from headwater.wire.pipeline import APPEND, UPDATE, PipelineRequest, PipelineRequestError

MOST_PIPELINES = 32
"""How many pipelines an account may have: all of them must fit into one message."""
MOST_NAME_BYTES = 64
MOST_SQL_BYTES = 16 << 10
MOST_INPUTS = 8
MOST_MESSAGES = 1_000_000
SHORTEST_S, LONGEST_S = 0.1, 86_400.0

FindConfig = Callable[[str], StreamConfig | None]
"""Returns the config of a stream, None if there is no such stream."""


def check_name(name: str) -> None:
    """Raise if no pipeline can have this name."""
    if not valid_stream_name(name) or len(name.encode()) > MOST_NAME_BYTES or not name.isprintable():
        raise PipelineRequestError(
            f"{name!r} is no name of a pipeline: up to {MOST_NAME_BYTES} bytes without spaces and . * > / \\"
        )


def check_request(request: PipelineRequest, functions: Sequence[str]) -> None:
    """Raise if the request contradicts itself, or names a function that the operator does not allow."""
    if bool(request.sql.strip()) == bool(request.function):
        raise PipelineRequestError("a pipeline has SQL or a function: name one of them")
    if len(request.sql.encode()) > MOST_SQL_BYTES:
        raise PipelineRequestError(f"the SQL has more than {MOST_SQL_BYTES >> 10} KiB")
    if request.function and request.function not in functions:
        allowed = f"it allows {', '.join(functions)}" if functions else "it allows none"
        raise PipelineRequestError(
            f"function {request.function!r} is not in the engine's setting pipeline_functions: {allowed}"
        )
    if request.function and not request.inputs:
        raise PipelineRequestError("a function needs the names of the streams that it reads")
    if request.output not in (APPEND, UPDATE):
        raise PipelineRequestError(f"the output is {APPEND} or {UPDATE}, not {request.output!r}")
    if not SHORTEST_S <= request.every_s <= LONGEST_S:
        raise PipelineRequestError("a pipeline runs every 0.1 s to 24 h")
    if not 1 <= request.max_messages <= MOST_MESSAGES:
        raise PipelineRequestError(f"a batch reads 1 to {MOST_MESSAGES:,} messages of a stream")
    _check_start(request)


def _check_start(request: PipelineRequest) -> None:
    if request.start_seq < 0 or (request.start_seq and request.start_time):
        raise PipelineRequestError("a pipeline starts at a sequence or at a time")
    if request.start_time and parse_time(request.start_time) is None:
        raise PipelineRequestError(f"{request.start_time!r} is no RFC 3339 time")


def check_streams(request: PipelineRequest, inputs: Sequence[str], find: FindConfig) -> None:
    """Raise if a stream is missing, or cannot be what the pipeline takes it for."""
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise PipelineRequestError(f"a pipeline reads 1 to {MOST_INPUTS} streams, not {len(inputs)}")
    if len({name.lower() for name in inputs}) < len(inputs):
        raise PipelineRequestError("Spark cannot tell streams apart whose names differ in case only")
    for name in inputs:
        config = find(name)
        if config is None:
            raise PipelineRequestError(f"there is no stream {name!r} to read")
        if config.retention is not Retention.LIMITS:
            raise PipelineRequestError(
                f"stream {name!r} has retention {config.retention.value}: reading would remove its messages. "
                "Source it into a stream with retention limits, and read that one"
            )
    check_target(request, find)
    if request.target in inputs:
        raise PipelineRequestError(f"stream {request.target!r} cannot be both read and written")


def check_target(request: PipelineRequest, find: FindConfig) -> None:
    """Raise if the results cannot be written to the target."""
    target = find(request.target)
    if target is None:
        raise PipelineRequestError(f"there is no stream {request.target!r} to write to: create it first")
    if target.mirror is not None or target.sealed:
        raise PipelineRequestError(f"stream {request.target!r} is a mirror or sealed: it takes no messages")
    if request.subject and not valid_literal(request.subject):
        raise PipelineRequestError(f"{request.subject!r} is no subject of a message")
    if request.subject and not any(matches(request.subject, each) for each in target.subjects):
        raise PipelineRequestError(
            f"stream {request.target!r} does not store subject {request.subject!r}: it has "
            f"{', '.join(target.subjects)}"
        )
