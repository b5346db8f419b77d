"""The states of a stream's consumers, recorded in the log of the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.stream.committer import Committer
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.retention.removal import Removal
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Store


class ConsumerRecords:
    """Records changes of consumers, and returns what replay found; the bytes are opaque here."""

    def __init__(
        self, store: Store, sequencer: Sequencer, committer: Committer, publishing: StreamPublishing
    ) -> None:
        self._store = store
        self._sequencer = sequencer
        self._committer = committer
        self._publishing = publishing

    @property
    def recorded_names(self) -> list[str]:
        """Return the consumers that replay found."""
        return list(self._store.ledger.consumers)

    def recorded(self, consumer: str) -> list[bytes]:
        """Return what replay found for a consumer: its state at the checkpoint, then its changes."""
        return self._store.ledger.consumers.get(consumer, [])

    async def restore(self, states: Mapping[str, bytes]) -> None:
        """Record whole states of consumers that will be opened with the stream."""
        self._committer.require_storing()
        for name, state in states.items():
            self._store.ledger.note_consumer(name, state)
        self._sequencer.record(states, None)
        await self._publishing.settled()

    def record(
        self,
        consumers: Mapping[str, bytes],
        *,
        removal: Removal | None = None,
        then: Sequence[bytes] = (),
    ) -> None:
        """Make consumers' changes and the removals they cause durable as one; then send these frames.

        Only while the stream stores. What the disk refuses later is undone: `on_rebuilt` follows.
        """
        assert self._committer.failure is None, "a change that is accepted and not recorded is lost"
        if consumers or removal:
            self._sequencer.record(consumers, removal)
        self._sequencer.group.after += then
        self._committer.wake()
