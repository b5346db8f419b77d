"""The client that `headwater.connect` returns to code without an event loop of its own."""

from __future__ import annotations

from headwater.client.async_client import open_client
from headwater.client.catch_up import STALLED_S
from headwater.client.connection_settings import ConnectionSettings
from headwater.client.stream_info import StreamInfo
from headwater.loop_thread import LoopThread


class SyncClient:
    """The methods of `AsyncClient`, each of which returns when it is done.

    The connection runs on a thread of its own, so the client also works inside a notebook, whose event loop
    it blocks while it waits.
    """

    def __init__(self, connection: ConnectionSettings) -> None:
        self._thread = LoopThread("headwater client")
        try:
            self._client = self._thread.run(open_client(connection))
        except BaseException:
            self._thread.stop()
            raise

    def stream_names(self, subject: str = "") -> list[str]:
        """Return the names of all streams, or of those that listen on a subject."""
        return self._thread.run(self._client.stream_names(subject))

    def streams(self) -> list[StreamInfo]:
        """Return all streams that are served; `offline` names the others."""
        return self._thread.run(self._client.streams())

    def stream(self, name: str) -> StreamInfo:
        """Return one stream; a stream that does not exist raises `headwater.Error`."""
        return self._thread.run(self._client.stream(name))

    def offline(self) -> dict[str, str]:
        """Return the streams that exist and are not served, each with the reason, empty if unknown."""
        return self._thread.run(self._client.offline())

    def catch_up(
        self, stream: str, *, within: float | None = None, stalled_after: float = STALLED_S
    ) -> StreamInfo:
        """Return once a stream has caught up; see `AsyncClient.catch_up`."""
        return self._thread.run(self._client.catch_up(stream, within=within, stalled_after=stalled_after))

    def close(self) -> None:
        """Close the connection and end its thread; a second call does nothing."""
        if self._thread.is_alive:
            self._thread.run(self._client.close())
            self._thread.stop()
