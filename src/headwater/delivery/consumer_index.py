"""The consumers of one stream, found by name, by the subject of an ack, and by what their filters match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from headwater.delivery.tallies import SubjectTally, Tallies
from headwater.model.consumer import ConsumerConfig

if TYPE_CHECKING:
    from headwater.delivery.consumer import Consumer


class ConsumerIndex:
    """Holds the consumers of a stream; it starts and stops nothing."""

    def __init__(self, tallies: Tallies | None = None) -> None:
        self.tallies = tallies or Tallies()
        """The filters of all consumers; each set of filters is counted once."""
        self.num_listed = 0
        """How many consumers clients see."""
        self._by_name: dict[str, Consumer] = {}
        self.by_key: dict[bytes, Consumer] = {}
        """By the first tokens of their ack subjects, in both forms; read directly, once per ack."""
        self._by_tally: dict[SubjectTally, set[Consumer]] = {}
        """The consumers that share a set of filters; never empty."""
        self._refiltered: set[Consumer] = set()
        """Consumers that may have pending messages that their filters do not match any more."""

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Consumer | None:
        """Return the consumer of this name."""
        return self._by_name.get(name)

    @property
    def listed(self) -> list[Consumer]:
        """Return the consumers that clients see, sorted by name."""
        seen = (c for c in self._by_name.values() if not c.config.direct)
        return sorted(seen, key=lambda consumer: consumer.name)

    @property
    def configs(self) -> Mapping[str, ConsumerConfig]:
        """Return the configs of all consumers by name, as a live view."""
        return _Configs(self._by_name)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, whose filters have joined the tallies."""
        self._by_name[consumer.name] = consumer
        self.num_listed += not consumer.config.direct
        for key in consumer.acks.keys:
            self.by_key[key] = consumer
        self._by_tally.setdefault(consumer.tally, set()).add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self._by_name.pop(consumer.name, None)
        for key in consumer.acks.keys:
            self.by_key.pop(key, None)
        self._leave(consumer, consumer.tally)
        self._refiltered.discard(consumer)
        self.num_listed -= not consumer.config.direct

    def rejoined(self, consumer: Consumer, old: SubjectTally) -> None:
        """Record that a consumer has other filters now than those of this tally."""
        self._refiltered.add(consumer)
        self._leave(consumer, old)
        self._by_tally.setdefault(consumer.tally, set()).add(consumer)

    def _leave(self, consumer: Consumer, tally: SubjectTally) -> None:
        self._by_tally[tally].discard(consumer)
        if not self._by_tally[tally]:
            del self._by_tally[tally]

    def with_tally(self, tally: SubjectTally) -> Iterable[Consumer]:
        """Return the consumers that share a set of filters."""
        return self._by_tally.get(tally, ())

    def matching(self, subject: bytes) -> Iterator[Consumer]:
        """Yield the consumers whose filters match a subject."""
        for tally in self.tallies.of(subject):
            yield from self._by_tally.get(tally, ())

    def concerned(self, subjects: Iterable[bytes]) -> set[Consumer]:
        """Return the consumers that match any of these subjects, or matched others at their delivery."""
        found = set(self._refiltered)
        for tally in self.tallies.of_any(subjects):
            found |= self._by_tally.get(tally, set())
        return found


class _Configs(Mapping[str, ConsumerConfig]):
    """The configs of consumers by name."""

    def __init__(self, consumers: Mapping[str, Consumer]) -> None:
        self._consumers = consumers

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._consumers[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)
