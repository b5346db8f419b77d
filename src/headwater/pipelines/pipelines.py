"""The pipelines of one account: `PIPELINE.CREATE`, `LIST`, `INFO`, `PAUSE`, `RESUME` and `DELETE` of the API.

1. A client declares a pipeline. The engine checks its streams and has the runner check its query with Spark.
2. The declaration enters the catalog. Only then is the client answered. The runner gets it with its next
   orders.
3. The runner starts the query, and starts it again when it fails.

Crash before 2: nothing is declared. After 2: any engine of the store finds it, and its runner starts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.catalog import Catalog
from headwater.control.domain import Domain
from headwater.errors import ApiError, Error, api_error
from headwater.model.stream import StreamConfig
from headwater.model.times import format_time
from headwater.pipelines.declared_pipelines import DeclaredPipelines
from headwater.pipelines.pipeline_rules import (
    MOST_PIPELINES,
    check_name,
    check_request,
    check_streams,
    check_target,
)
from headwater.pipelines.pipeline_status import InputEnd, PipelineStatus, status_of
from headwater.pipelines.runner_link import RunnerLink
from headwater.spark.pipelines.checkpoint import PipelineCheckpoint
from headwater.threads import on_thread
from headwater.wire.frames import Frame
from headwater.wire.pipeline import (
    PIPELINE,
    Pipeline,
    PipelineRequest,
    PipelineRequestError,
    ReadOffset,
    decoded,
)
from headwater.wire.stream_json import Json, error_json

logger = logging.getLogger(__name__)

TYPE = "io.headwater.api.v1.pipeline_response"
CHECK_S = 240.0
"""How long the runner may take for a check; Spark may have to be started first."""
STOP_S = 15.0
"""How long to wait until the runner has stopped a query."""
MOST_WAITING = 64
"""How many requests may be answered at the same time."""

Handler = Callable[[str, bytes], Awaitable[Json]]


class Pipelines:
    """Answers requests about the pipelines of an account, and keeps its runner informed."""

    def __init__(
        self,
        domain: Domain,
        connection: Connection,
        clock: Clock,
        catalog: Catalog,
        *,
        prefixes: tuple[str, ...],
        folder: str,
        checkpoints: Path,
        run_subject: str,
        secret: bytes,
        functions: tuple[str, ...] = (),
        is_single: bool = True,
        on_needed: Callable[[], None] = lambda: None,
        problem: Callable[[], str] = str,
    ) -> None:
        """Serve pipelines whose checkpoints are in a folder; `on_needed` starts a runner."""
        self.items: list[Frame] = []
        """Requests that have arrived."""
        self._domain = domain
        self._connection = connection
        self._clock = clock
        self._prefixes = prefixes
        self._functions = functions
        self._checkpoints = checkpoints
        self._on_needed = on_needed
        self._problem = problem
        """Returns why there is no runner, if that is known."""
        self._declared = DeclaredPipelines(catalog, folder)
        self._link = RunnerLink(
            connection,
            clock,
            run_subject,
            secret,
            lambda: tuple(each for each in self._declared if not each.paused),
            str(checkpoints),
            prefixes[0],
            is_single=is_single,
        )
        self._read: dict[str, tuple[ReadOffset, ...]] = {}
        """How far each pipeline had read when the engine started, by its id."""
        self._changing = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._sids: list[bytes] = []
        self._verbs: dict[str, Handler] = {
            "CREATE": self._create,
            "INFO": self._info,
            "PAUSE": self._pause,
            "RESUME": self._resume,
            "DELETE": self._delete,
        }
        """What answers each kind of request about one pipeline."""

    async def open(self) -> None:
        """Load what is declared, and answer requests from now on."""
        await self._declared.load()
        for each in self._declared:
            found = await on_thread(PipelineCheckpoint.of(self._checkpoints, each).offsets)
            self._read[each.id] = found
        self._link.start()
        for prefix in self._prefixes:
            self._sids.append(self._connection.subscribe(f"{prefix}.{PIPELINE}>".encode(), self))
        self._need_runner()

    async def close(self) -> None:
        """Answer no more."""
        for sid in self._sids:
            self._connection.unsubscribe(sid)
        self._tasks.cancel()
        await self._tasks.ended()
        await self._link.close()

    def flush(self) -> None:
        """Begin to answer the requests that have arrived."""
        frames, self.items[:] = list(self.items), []
        for subject, reply, _, body in frames:
            tail = subject.decode(errors="replace").partition(f".{PIPELINE}")[2]
            if reply and len(self._tasks) < MOST_WAITING:
                self._tasks.start(self._answer(tail, reply, body), f"pipeline request {tail}")

    def __iter__(self) -> Iterator[PipelineStatus]:
        return (self._status(each) for each in self._declared)

    async def _answer(self, tail: str, reply: bytes, body: bytes) -> None:
        verb, _, name = tail.partition(".")
        try:
            if tail == "LIST":
                members: Json = {"pipelines": [status.json() for status in self]}
            elif verb in self._verbs:
                members = await self._verbs[verb](name, body)
            else:
                raise PipelineRequestError(f"there is no request {tail!r}")
        except ApiError as error:
            members = {"error": error_json(error)}
        except (Error, OSError) as error:
            members = {"error": error_json(api_error("stream_general_error", err=str(error)))}
        except Exception:
            logger.exception("a request about pipelines failed: %s", tail)
            failed = api_error("stream_general_error", err="internal error, see the log of the engine")
            members = {"error": error_json(failed)}
        self._connection.publish(reply, msgspec.json.encode({"type": TYPE, **members}))

    async def _create(self, name: str, body: bytes) -> Json:
        check_name(name)
        request = decoded(PipelineRequest, body)
        check_request(request, self._functions)
        known = self._declared.find(name)
        if known is not None:
            return self._same(known, request)
        if len(self._declared) >= MOST_PIPELINES:
            raise PipelineRequestError(f"the account has {MOST_PIPELINES} pipelines, and may not have more")
        check_target(request, self._config)
        if request.inputs:
            check_streams(request, request.inputs, self._config)
        wanted = Pipeline(
            **msgspec.structs.asdict(request), name=name, id=str(uuid4()), created_ns=self._clock.now_ns()
        )
        self._on_needed()
        verdict = await self._link.check(wanted, CHECK_S)
        if verdict is None:
            raise PipelineRequestError(
                f"nothing was declared: {self._runner_problem() or 'Spark is too slow'}"
            )
        if verdict.problem:
            raise PipelineRequestError(verdict.problem)
        check_streams(request, verdict.inputs, self._config)
        made = msgspec.structs.replace(wanted, inputs=verdict.inputs)
        async with self._changing:
            known = self._declared.find(name)
            if known is not None:
                return self._same(known, request)
            await self._declared.put(made)
        self._link.change()
        logger.info("pipeline added", extra={"pipeline": name, "target": made.target})
        return self._status(made).json()

    def _same(self, known: Pipeline, request: PipelineRequest) -> Json:
        """Return the answer for a pipeline that is declared already; raise if it is another one."""
        fields = PipelineRequest.__struct_fields__
        differs = [
            each
            for each in fields
            if getattr(known, each) != getattr(request, each) and (each != "inputs" or request.inputs)
        ]
        if differs:
            raise PipelineRequestError(
                f"pipeline {known.name!r} exists with another {differs[0]}: remove it first, or choose "
                "another name"
            )
        return self._status(known).json()

    async def _info(self, name: str, body: bytes) -> Json:
        return self._status(self._found(name)).json()

    async def _pause(self, name: str, body: bytes) -> Json:
        return await self._changed(name, paused=True)

    async def _resume(self, name: str, body: bytes) -> Json:
        return await self._changed(name, paused=False)

    async def _changed(self, name: str, *, paused: bool) -> Json:
        async with self._changing:
            found = self._found(name)
            if found.paused != paused:
                found = msgspec.structs.replace(found, paused=paused, revision=found.revision + 1)
                await self._declared.put(found)
        self._link.change()
        self._need_runner()
        if paused:
            await self._link.ended(found, STOP_S)
        return self._status(found).json()

    async def _delete(self, name: str, body: bytes) -> Json:
        async with self._changing:
            found = self._found(name)
            await self._declared.forget(name)
        self._link.change()
        await self._link.ended(found, STOP_S)
        self._link.forget(found)
        await on_thread(PipelineCheckpoint.of(self._checkpoints, found).remove)
        logger.info("pipeline removed", extra={"pipeline": name})
        return {"success": True}

    def _found(self, name: str) -> Pipeline:
        found = self._declared.find(name)
        if found is None:
            raise PipelineRequestError(f"there is no pipeline {name!r}")
        return found

    def _status(self, pipeline: Pipeline) -> PipelineStatus:
        report = self._link.report(pipeline)
        offsets = report.offsets if report is not None else ()
        if not offsets:
            offsets = self._read.get(pipeline.id, ())
        ends = {name: end for name in pipeline.inputs if (end := self._end(name)) is not None}
        return status_of(
            pipeline,
            report,
            offsets,
            ends,
            has_target=self._domain.find(pipeline.target) is not None,
            runner_problem=self._runner_problem(),
        )

    def _end(self, name: str) -> InputEnd | None:
        stream = self._domain.find(name)
        if stream is None:
            return None
        return InputEnd(name, format_time(stream.created_ns), stream.reading.last_seq)

    def _config(self, name: str) -> StreamConfig | None:
        stream = self._domain.find(name)
        return stream.config if stream is not None else None

    def _runner_problem(self) -> str:
        """Return why no query runs; empty if a runner answers or is starting."""
        return "" if self._link.is_heard else self._problem()

    def _need_runner(self) -> None:
        if any(not each.paused for each in self._declared):
            self._on_needed()
