"""What happens to a stream, reported to its consumers, to upstreams that copy it and to the engine.

The parts of a stream call these methods. The consumers of the stream are the one `Listener`. Everything else
adds a callback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from headwater.callbacks import Callbacks
from headwater.model.adopted import Adopted
from headwater.stream.head import HeadEntry
from headwater.stream.listener import Listener
from headwater.stream.publishing.atomic_batch import Abandoned
from headwater.stream.retention.hold import StreamHolds
from headwater.stream.retention.removal import Removal

logger = logging.getLogger(__name__)


class StreamEvents:
    """Calls the listener and the callbacks of one stream; an error in one of them stops nothing else."""

    def __init__(self, name: str, holds: StreamHolds) -> None:
        self._name = name
        self._holds = holds
        self._listener: Listener | None = None
        """The stream's consumers; None until they listen."""
        self.message_callbacks: Callbacks[Callable[[], None]] = Callbacks()
        """Called when new messages can be read."""
        self.change_callbacks: Callbacks[Callable[[], None]] = Callbacks()
        """Called when something is offered, stored, removed or recorded, or fails to be."""
        self.abandoned_callbacks: Callbacks[Callable[[bytes, Abandoned], None]] = Callbacks()
        """Called with the id of an atomic batch that is abandoned, and why."""
        self.over_limits_callbacks: Callbacks[Callable[[Collection[bytes]], None]] = Callbacks()
        """Called when a limit cannot be enforced before a thread has read a bucket."""

    def listen(self, listener: Listener) -> None:
        """Report to this listener from now on."""
        self._listener = listener

    @property
    def listener(self) -> Listener | None:
        """Return the consumers of the stream, None before they are opened."""
        return self._listener

    def wants(self, subject: bytes) -> bool:
        """Return whether a consumer or a copy needs the messages of a subject."""
        listener = self._listener
        return (listener is not None and listener.wants(subject)) or self._holds.wants(subject)

    def consumer_states(self) -> dict[str, list[bytes]] | None:
        """Return the recorded state of every consumer, None while there is no listener."""
        return None if self._listener is None else self._listener.dump()

    def stored(self, entries: Sequence[HeadEntry]) -> None:
        """Report messages that are durable now."""
        if self._listener is not None:
            self._call(self._listener.on_stored, entries)
        self.has_messages()

    def adopted(self, file: Adopted) -> None:
        """Report a file of copied messages that is in the table now."""
        if self._listener is not None:
            self._call(self._listener.on_adopted, file)
        self.changed()
        self.has_messages()

    def has_messages(self) -> None:
        """Report that there may be new messages to read."""
        for callback in self.message_callbacks:
            self._call(callback)

    def changed(self) -> None:
        """Report that something changed, or failed to."""
        for callback in self.change_callbacks:
            self._call(callback)

    def over_limits(self, subjects: Collection[bytes]) -> None:
        """Report that the stream, or these subjects, hold more than a limit allows until a thread reads."""
        for callback in self.over_limits_callbacks:
            callback(subjects)

    def removed(self, removal: Removal) -> None:
        """Report messages that are gone; an error here fails the change that removed them."""
        if self._listener is not None:
            self._listener.on_removed(removal)

    def rebuilt(self) -> None:
        """Report that ledger and head were rebuilt from what is durable."""
        if self._listener is not None:
            self._call(self._listener.on_rebuilt)
        self._call(self._holds.rebuilt)

    def abandoned(self, batch_id: bytes, reason: Abandoned) -> None:
        """Report an atomic batch that will not be stored."""
        for callback in self.abandoned_callbacks:
            self._call(callback, batch_id, reason)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        """Call a callback; log its error, because it must not keep the stream from storing."""
        try:
            callback(*args)
        except Exception:
            logger.exception("stream %s: a listener failed", self._name)
