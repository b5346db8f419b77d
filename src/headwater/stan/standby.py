"""The monitoring pages of a standby engine."""

from __future__ import annotations

from headwater.clock import Clock
from headwater.model.unique import unique_id
from headwater.stan.monitoring import PREFIX, Answer, Handler, Json, Query, files, index, page, process
from headwater.stan.role import STANDBY, Role

_COUNTS = ("clients", "subscriptions", "channels", "total_msgs", "total_bytes")
_TRAFFIC = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")


class StandbyPages:
    """The pages of a process that does not serve yet."""

    def __init__(self, cluster_id: str, clock: Clock, role: Role = STANDBY) -> None:
        self._role = role
        self._cluster_id = cluster_id
        self._server_id = unique_id()
        """The id of this process. The server's own id is in the store, which is not open yet."""
        self._clock = clock
        self._started_ns = clock.now_ns()

    @property
    def pages(self) -> dict[str, Handler]:
        """Return the pages by their paths."""
        return {
            PREFIX: self._index,
            f"{PREFIX}/serverz": page(self._server),
            f"{PREFIX}/isFTActive": self._is_active,
        }

    async def _index(self, query: Query) -> Answer:
        return index(self.pages)

    async def _is_active(self, query: Query) -> Answer:
        return 204, "text/plain; charset=utf-8", b""

    async def _server(self, query: Query) -> Json:
        return {
            "cluster_id": self._cluster_id,
            "server_id": self._server_id,
            **process(self._role, self._started_ns, self._clock.now_ns()),
            **dict.fromkeys((*_COUNTS, *_TRAFFIC), 0),
            **files(),
        }
