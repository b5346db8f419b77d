"""The metrics page: everything that an engine counts, as one text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.meters import Meters
from headwater.monitor.consumer_numbers import write_consumers
from headwater.monitor.exposition import Exposition, labels
from headwater.monitor.open_parts import OpenParts
from headwater.monitor.part_numbers import BUCKET, JOURNAL, REPLICATOR, STAN
from headwater.monitor.pipeline_numbers import write_pipelines
from headwater.monitor.process_numbers import write_disk, write_process
from headwater.monitor.served_account import Scrape, Totals
from headwater.monitor.serving_state import EnginePhase, ServingState
from headwater.monitor.stream_numbers import write_streams
from headwater.monitor.upstream_numbers import write_upstreams
from headwater.threads import on_thread
from headwater.version import VERSION

_TOTALS = (
    ("jetstream_server_total_streams", "Streams.", "streams"),
    ("jetstream_server_total_consumers", "Consumers.", "consumers"),
    ("jetstream_server_total_messages", "Messages in all streams.", "messages"),
    ("jetstream_account_memory_used", "Bytes in streams with memory storage.", "memory_bytes"),
    ("jetstream_account_storage_used", "Bytes in streams with file storage.", "file_bytes"),
    ("headwater_streams_offline", "Streams that could not be opened.", "offline"),
    ("headwater_streams_failing", "Streams that nothing can be stored or folded in.", "failing"),
    ("headwater_upstreams", "Sources and mirrors.", "upstreams"),
    ("headwater_upstreams_failing", "Sources and mirrors that show an error.", "failing_upstreams"),
)


_TOTAL_COUNTERS = (
    ("headwater_replicator_plans", "Plans that replicators got; each is one Spark job.", "plans"),
    ("headwater_replicator_commits", "Commits of what replicators copied.", "commits"),
)


class Metrics:
    """Writes the metrics of one engine when they are asked for."""

    def __init__(self, status: ServingState, meters: Meters, store: Path, most_streams: int) -> None:
        self._status = status
        self._meters = meters
        self._store = store
        self._most = most_streams

    async def text(self) -> bytes:
        """Return the metrics as OpenMetrics text."""
        scrape, totals = Scrape(self._most), []
        for account in list(self._status.served):
            totals.append(await account.read(scrape))
        exposition = Exposition()
        self._write_engine(exposition)
        # All that streams change was read by now, so a thread can write it.
        return await on_thread(self._write, exposition, scrape, totals)

    def _write(self, exposition: Exposition, scrape: Scrape, totals: Sequence[Totals]) -> bytes:
        write_disk(exposition, self._store)
        write_process(exposition)
        for name, help, field in _TOTALS:
            exposition.gauge(name, help, [(one.labels, getattr(one, field)) for one in totals])
        for name, help, field in _TOTAL_COUNTERS:
            exposition.counter(name, help, [(one.labels, getattr(one, field)) for one in totals])
        STAN.write(exposition, [(one.labels, one.stan) for one in totals if one.stan is not None])
        write_streams(exposition, scrape.streams)
        write_consumers(exposition, scrape.consumers)
        write_upstreams(exposition, scrape.upstreams)
        write_pipelines(exposition, scrape.pipelines)
        omitted = "Streams, consumers and upstreams that are not shown one by one; see metrics_streams."
        exposition.gauge("headwater_metrics_omitted", omitted, [("", scrape.omitted)])
        return exposition.text()

    def _write_engine(self, exposition: Exposition) -> None:
        status, meters = self._status, self._meters
        exposition.gauge("headwater_build_info", "The release.", [(labels(version=VERSION), 1)])
        phases = [(labels(phase=str(phase)), status.phase is phase) for phase in EnginePhase]
        exposition.gauge("headwater_engine_phase", "1 for what the engine does.", phases)
        checks = [(labels(check=check.name), not check.problem) for check in status.checks()]
        exposition.gauge("headwater_ready", "1 for each check of readiness that passes, else 0.", checks)
        exposition.counter("headwater_stored_messages", "Stored messages.", [("", meters.stored_messages)])
        exposition.counter("headwater_stored_bytes", "Bytes appended to logs.", [("", meters.stored_bytes)])
        exposition.counter(
            "headwater_refused_commits",
            "Groups of changes that the disk or the journal refused.",
            [("", meters.refused_commits)],
        )
        exposition.histogram(
            "headwater_ack_latency_seconds",
            "From the first message of a group to the group's acks, for each of its messages.",
            meters.ack_latency,
        )
        exposition.histogram(
            "headwater_commit_seconds", "Time to append and sync one group of changes.", meters.commits
        )
        exposition.histogram("headwater_fold_seconds", "Time of one fold into a table.", meters.folds)
        exposition.counter("headwater_failed_folds", "Folds that failed.", [("", meters.failed_folds)])
        exposition.histogram(
            "headwater_compaction_seconds", "Time of one compaction of a table.", meters.compactions
        )
        exposition.histogram(
            "headwater_event_loop_delay_seconds", "How late the event loop ran a timer.", meters.loop_delay
        )
        exposition.counter(
            "headwater_deliveries", "First deliveries to consumers.", [("", meters.deliveries)]
        )
        exposition.counter(
            "headwater_redeliveries", "Deliveries that were repeated.", [("", meters.redeliveries)]
        )
        kinds = (("ack", meters.acks), ("nak", meters.naks), ("term", meters.terminated))
        exposition.counter(
            "headwater_acks",
            "Acks of clients that had an effect, by kind.",
            [(labels(kind=kind), count) for kind, count in kinds],
        )
        self._write_parts(exposition, status.parts)

    def _write_parts(self, exposition: Exposition, parts: OpenParts) -> None:
        BUCKET.write_one(exposition, parts.bucket())
        JOURNAL.write_one(exposition, parts.journal())
        REPLICATOR.write_one(exposition, parts.replicator())
        cache = parts.cache
        if cache is not None:
            exposition.gauge("headwater_read_cache_bytes", "Size of cached row groups.", [("", cache.nbytes)])
            found = [(labels(found="yes"), cache.hits), (labels(found="no"), cache.misses)]
            exposition.counter("headwater_read_cache_lookups", "Lookups of cached row groups.", found)
        found_peers = parts.peers()
        peers = [(labels(server=peer.name), peer.lag) for peer in found_peers]
        exposition.gauge("headwater_journal_peer_lag", "Records that a journal's server lacks.", peers)
        current = [(labels(server=peer.name), peer.is_current) for peer in found_peers]
        exposition.gauge("headwater_journal_peer_current", "1 if a journal's server is up to date.", current)
