"""Mirrors that answer the direct gets of their origins, if the origins do not answer themselves."""

from __future__ import annotations

from collections.abc import Callable

from headwater.api.direct import DirectDoor
from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream
from headwater.upstreams.upstream import Upstream

NEAR = 10
"""A mirror that lags by fewer messages than this answers from then on, as in nats-server."""


class MirrorDirectGets:
    """Answers for the origin of each mirror with `mirror_direct`; an observer of the domain.

    A local origin that allows direct gets answers alone: a reader must see what it has just written, which a
    mirror may not have yet.
    """

    def __init__(self, door: Callable[[Stream, str], DirectDoor]) -> None:
        self._door = door
        """Makes the door of a mirror that answers under its origin's name."""
        self._streams: dict[str, Stream] = {}
        """The open streams by name."""
        self._near: set[str] = set()
        """The mirrors that have been close enough to their origins."""
        self._doors: dict[str, DirectDoor] = {}
        """The mirrors that answer for their origins now, by name."""

    def on_opened(self, stream: Stream) -> None:
        """Add the stream: it may be a mirror, or the origin of some."""
        self._streams[stream.name] = stream
        self._review()

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Start or stop answering for origins."""
        if stream.config.mirror != old.mirror:
            self._near.discard(stream.name)
        self._review()

    def on_closed(self, stream: Stream) -> None:
        """Remove the stream."""
        del self._streams[stream.name]
        self._near.discard(stream.name)
        self._review()

    def on_looked(self, upstream: Upstream) -> None:
        """Start answering for an origin once its mirror is close enough."""
        name = upstream.target.name
        if upstream.mirrored and upstream.lag < NEAR and name not in self._near:
            self._near.add(name)
            self._review()

    def _review(self) -> None:
        for name in [*self._doors]:
            if not (name in self._streams and self._answers(self._streams[name])):
                self._doors.pop(name).close()
        for name, stream in self._streams.items():
            mirror = stream.config.mirror
            if mirror is not None and name not in self._doors and self._answers(stream):
                self._doors[name] = self._door(stream, mirror.name)
                self._doors[name].open()

    def _answers(self, stream: Stream) -> bool:
        config, mirror = stream.config, stream.config.mirror
        if mirror is None or not config.mirror_direct or stream.name not in self._near:
            return False
        here = self._streams.get(mirror.name)
        if here is None:
            return True
        # A local stream of that name is not the remote origin. If it is the origin, a mirror of a part of it
        # would report the rest as not found.
        part = bool(mirror.filter_subject or mirror.subject_transforms)
        return mirror.external is None and not here.config.allow_direct and not part
