"""The /replicator page: whether the replicator runs, and the jobs that it runs and ran."""

from __future__ import annotations

import msgspec

from headwater.monitor.recent_log import without_secrets
from headwater.monitor.serving_state import ServingState
from headwater.web.page_server import Answer, Query

MOST_JOBS = 100


class ReplicatorPage:
    """Answers what the engine knows of its replicators."""

    def __init__(self, status: ServingState) -> None:
        self._status = status

    async def page(self, query: Query) -> Answer:
        """Answer the state of the replicator, and the jobs of all accounts, those that run first."""
        parts = self._status.parts
        child = parts.replicator()
        jobs = [
            {"account": account.account, **job, "error": without_secrets(job["error"])}
            for account in self._status.served
            for job in account.upstreams.jobs.listed()
        ]
        jobs.sort(key=lambda job: (not job["is_running"], -job["began_s"]))
        body = {
            "is_started_here": child is not None,
            "is_running": child.is_running if child is not None else None,
            "restarts": child.restarts if child is not None else None,
            "problem": without_secrets(parts.replicator_problem()),
            "jobs": jobs[:MOST_JOBS],
        }
        return 200, "application/json", msgspec.json.encode(body) + b"\n"
