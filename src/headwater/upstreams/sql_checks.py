"""SQL of row pipelines that a replicator checks before a stream is declared: the engine itself has no Spark.

A check travels in the answer to a replicator's next request for work, and its result in a request of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.errors import api_error
from headwater.model.row_pipeline import RowPipeline, pipeline_for, pipelines_in
from headwater.model.stream import StreamConfig
from headwater.model.unique import unique_id
from headwater.replication.work import EXCHANGE_BYTES, SqlCheck, SqlChecked
from headwater.upstreams.work_pipelines import payload_fields

WAIT_S = 120.0
"""How long a declaration waits for a replicator, which may have to start Spark first."""
AGAIN_S = 20.0
"""When a check is handed out again, because the replicator that had it may have ended."""
MOST_WAITING = 100
Sql = tuple[str, str, str, bool]


@dataclass(eq=False)
class _Waiting:
    check: SqlCheck
    result: asyncio.Future[str]
    handed_s: float = field(default=-AGAIN_S)
    """When it was last handed out, by the event loop's clock."""


class SqlChecks:
    """The checks that wait for a replicator; runs on the event loop."""

    def __init__(self, on_waiting: Callable[[], None], problem: Callable[[], str]) -> None:
        self._on_waiting = on_waiting
        """Called when a check waits, so that a replicator is started and asks."""
        self._problem = problem
        """Returns why there is no replicator, if that is known."""
        self._waiting: dict[str, _Waiting] = {}
        """By the id of the check."""

    async def require_valid(
        self,
        config: StreamConfig,
        old: StreamConfig | None,
        origin_of: Callable[[str], StreamConfig | None],
        wait_s: float = WAIT_S,
    ) -> None:
        """Return once Spark accepts the SQL that a config declares; refuse the config otherwise."""
        wanted = declared_sql(config, origin_of)
        known = declared_sql(old, origin_of) if old is not None else []
        reasons = await asyncio.gather(*(self._reason(sql, wait_s) for sql in wanted if sql not in known))
        for reason in filter(None, reasons):
            raise api_error("bad_config", err=f"row pipeline: {reason}")

    async def _reason(self, sql: Sql, wait_s: float) -> str:
        if len(self._waiting) >= MOST_WAITING:
            return "too many declarations wait for Spark, which checks their SQL: try again later"
        where, select, fields, mirrored = sql
        check = SqlCheck(id=unique_id(), where=where, select=select, fields=fields, mirrored=mirrored)
        waiting = _Waiting(check, asyncio.get_running_loop().create_future())
        self._waiting[check.id] = waiting
        self._on_waiting()
        try:
            async with asyncio.timeout(wait_s):
                return await waiting.result
        except TimeoutError:
            problem = self._problem() or "is a replicator running, and of this release?"
            return f"no replicator has checked the SQL within {wait_s:g} s: {problem}"
        finally:
            self._waiting.pop(check.id, None)

    @property
    def is_waiting(self) -> bool:
        """Return whether a check should be handed out."""
        return any(self._is_due(each) for each in self._waiting.values())

    def _is_due(self, waiting: _Waiting) -> bool:
        return asyncio.get_running_loop().time() - waiting.handed_s >= AGAIN_S

    def hand_out(self) -> tuple[SqlCheck, ...]:
        """Return the checks that wait, as many as fit into a plan."""
        chosen: list[SqlCheck] = []
        room = EXCHANGE_BYTES // 2
        for waiting in self._waiting.values():
            check = waiting.check
            room -= len(check.where) + len(check.select) + len(check.fields) + 200
            if not self._is_due(waiting) or (chosen and room < 0):
                continue
            waiting.handed_s = asyncio.get_running_loop().time()
            chosen.append(check)
        return tuple(chosen)

    def answered(self, results: list[SqlChecked]) -> None:
        """Take the results of a replicator."""
        for each in results:
            waiting = self._waiting.get(each.id)
            if waiting is not None and not waiting.result.done():
                waiting.result.set_result(each.reason)

    def close(self) -> None:
        """Refuse the declarations that wait."""
        for waiting in self._waiting.values():
            if not waiting.result.done():
                waiting.result.set_result("the engine is stopping")


def declared_sql(config: StreamConfig, origin_of: Callable[[str], StreamConfig | None]) -> list[Sql]:
    """Return the SQL of each source and mirror with a pipeline, with the type of its payload."""
    pipelines: tuple[RowPipeline, ...] = pipelines_in(config.metadata)
    upstreams = ([config.mirror] if config.mirror is not None else []) + list(config.sources)
    found: list[Sql] = []
    for upstream in upstreams:
        pipeline = pipeline_for(pipelines, upstream.name)
        if pipeline is None:
            continue
        origin = origin_of(upstream.name) if upstream.external is None else None
        fields = payload_fields(pipeline, config, origin)
        found.append((pipeline.where, pipeline.select, fields, config.mirror is not None))
    return found
