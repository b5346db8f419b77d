"""One account as the metrics show it: its totals, and a bounded number of its streams and consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headwater.clock import Clock
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.model.stream import Storage
from headwater.monitor.consumer_numbers import ConsumerNumbers, consumer_numbers
from headwater.monitor.exposition import joined, labels
from headwater.monitor.part_numbers import StanNumbers
from headwater.monitor.pipeline_numbers import PipelineRow, pipeline_row
from headwater.monitor.stream_numbers import StreamNumbers, stream_numbers
from headwater.monitor.upstream_numbers import UpstreamNumbers, upstream_numbers
from headwater.pipelines.pipelines import Pipelines
from headwater.stream.stream import Stream
from headwater.upstreams.upstreams import Upstreams

AT_ONCE = 200
"""How many streams are read in one turn of the event loop."""


@dataclass
class Scrape:
    """What one scrape has read of all accounts; each row has its labels first."""

    left: int
    """How many more streams may be shown one by one, and as many consumers and upstreams."""
    streams: list[tuple[str, StreamNumbers]] = field(default_factory=list)
    consumers: list[tuple[str, ConsumerNumbers]] = field(default_factory=list)
    upstreams: list[tuple[str, UpstreamNumbers]] = field(default_factory=list)
    pipelines: list[PipelineRow] = field(default_factory=list)
    """Every pipeline: an account may have few."""
    omitted: int = 0
    """Streams, consumers and upstreams that are not shown one by one."""


@dataclass
class Totals:
    """The sums over all streams of an account, shown or not."""

    labels: str
    streams: int = 0
    offline: int = 0
    failing: int = 0
    consumers: int = 0
    messages: int = 0
    memory_bytes: int = 0
    file_bytes: int = 0
    upstreams: int = 0
    failing_upstreams: int = 0
    plans: int = 0
    commits: int = 0
    stan: StanNumbers | None = None
    """None if NATS Streaming is not served."""


@dataclass(frozen=True)
class ServedAccount:
    """An account that is served, and the labels that it has everywhere."""

    account: str
    domain_name: str
    server_name: str
    domain: Domain
    consumers: Consumers
    upstreams: Upstreams
    clock: Clock
    stan: Callable[[], StanNumbers] | None = None
    """Returns the numbers of NATS Streaming, if it is served."""
    pipelines: Pipelines | None = None
    """The account's pipelines, if the engine runs any."""

    async def read(self, scrape: Scrape) -> Totals:
        """Add the account's numbers, and return its totals; other tasks run between slices."""
        own = labels(server_name=self.server_name, domain=self.domain_name, account=self.account)
        totals = Totals(own, offline=len(self.domain.offline))
        totals.plans, totals.commits = self.upstreams.plans, self.upstreams.commits
        totals.stan = self.stan() if self.stan is not None else None
        scrape.pipelines += [pipeline_row(each, own) for each in self.pipelines or ()]
        for number, stream in enumerate(self.streams(), 1):
            self._count(stream, totals)
            if scrape.left > 0:
                scrape.left -= 1
                self._add(stream, own, scrape)
            else:
                scrape.omitted += 1
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return totals

    def streams(self) -> Iterator[Stream]:
        """Yield the open streams by name, so that each scrape shows the same ones."""
        for name in self.domain.names():
            stream = self.domain.find(name)
            if stream is not None:
                yield stream

    def _count(self, stream: Stream, totals: Totals) -> None:
        reading = stream.reading
        totals.streams += 1
        totals.failing += bool(stream.failure)
        totals.consumers += self.consumers.count(stream)
        totals.messages += reading.messages
        if stream.config.storage is Storage.MEMORY:
            totals.memory_bytes += reading.size
        else:
            totals.file_bytes += reading.size
        upstreams = self.upstreams.of(stream.name)
        totals.upstreams += len(upstreams)
        totals.failing_upstreams += sum(upstream.error is not None for upstream in upstreams)

    def _add(self, stream: Stream, own: str, scrape: Scrape) -> None:
        of_stream = joined(own, labels(stream_name=stream.name))
        leading = joined(of_stream, labels(is_stream_leader="true"))
        scrape.streams.append((leading, stream_numbers(stream, self.consumers.count(stream))))
        limit, now_ns = len(scrape.streams) + scrape.left, self.clock.now_ns()
        for upstream in self.upstreams.of(stream.name):
            if len(scrape.upstreams) < limit:
                scrape.upstreams.append(upstream_numbers(upstream, of_stream, now_ns))
            else:
                scrape.omitted += 1
        for consumer in self.consumers.of(stream).listed if self.consumers.count(stream) else ():
            if len(scrape.consumers) < limit:
                named = joined(of_stream, labels(consumer_name=consumer.name))
                scrape.consumers.append((named, consumer_numbers(consumer)))
            else:
                scrape.omitted += 1
