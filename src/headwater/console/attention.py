"""What needs attention at a site: rules over what was read, each with a message and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwater.client.stream_info import UpstreamInfo
from headwater.console.console_page import Query
from headwater.console.sampler import SampledSite, Sampler
from headwater.console.snapshot import Json, SiteSnapshot
from headwater.console.upstream_remedies import upstream_remedy
from headwater.model.counted import counted
from headwater.model.progress import Phase

CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
_ORDER = (CRITICAL, WARNING, NOTICE)
NEARLY_FULL = 0.9
DISK_WARNING, DISK_CRITICAL = 0.1, 0.05
"""The shares of the disk that are free when it is reported."""
GROWING_POINTS = 30
"""This many reads in a row, about a minute, show whether a lag grows."""
LEAST_LAG = 100
MANY_REDELIVERED = 10
MOST_LISTED = 500
_CHECK_REMEDIES = {
    "engine": "wait for the start, or see the engine's log",
    "journal": "check that the journal's servers or its bucket answer; the engine's log names the error",
    "disk": "free space on the store's disk, or add some; the engine continues by itself",
    "streams": "stop the engine and run `headwater store verify`, which names the repair",
    "replicator": "check Spark and Java, and the replicator's log",
}

Past = Callable[[tuple[str, ...], int], Sequence[float | None]]
"""Returns the last values of a number that the console keeps."""


@dataclass(frozen=True)
class Attention:
    """One thing to look at."""

    severity: str
    site: str
    about: str
    """The stream, consumer or part of the engine."""
    sentence: str
    remedy: str
    stream: str = ""
    """The stream whose page shows more; empty if there is none."""


def attention_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return what needs attention at all sites, the worst first."""
    found = [each for site in sampler.sites.values() for each in of_site(site)]
    found.sort(key=lambda each: (_ORDER.index(each.severity), each.site, each.about, each.sentence))
    counts = {severity: sum(each.severity == severity for each in found) for severity in _ORDER}
    return {
        "entries": [asdict(each) for each in found[:MOST_LISTED]],
        "hidden": max(len(found) - MOST_LISTED, 0),
        "counts": counts,
        "sites": len(sampler.sites),
    }


def of_site(site: SampledSite) -> list[Attention]:
    """Return what needs attention at one site."""
    return list(rules(site.snapshot, site.history.recent))


def rules(snapshot: SiteSnapshot, past: Past) -> Iterator[Attention]:
    """Yield what needs attention, rule by rule."""
    yield from _site(snapshot)
    if snapshot.error:
        return  # what was read before the error is not news
    yield from _engine(snapshot)
    yield from _disk(snapshot)
    yield from _account(snapshot)
    for name, why in snapshot.offline.items():
        yield Attention(
            CRITICAL,
            snapshot.site,
            name,
            f"the stream could not be opened: {why}",
            _CHECK_REMEDIES["streams"],
        )
    for name, info in snapshot.streams.items():
        yield from _stream(snapshot, name, info)
        for place, upstream in enumerate(snapshot.upstreams.get(name, ())):
            lags = past(("upstream", name, str(place), upstream.name, "lag"), GROWING_POINTS)
            yield from _upstream(snapshot.site, name, upstream, lags)
    yield from _pipelines(snapshot)
    for stream, consumers in snapshot.consumers.items():
        for consumer in consumers:
            yield from _consumer(snapshot.site, stream, consumer)


def _pipelines(snapshot: SiteSnapshot) -> Iterator[Attention]:
    for info in snapshot.pipelines:
        if info.get("state") == "failing":
            name, target = str(info["config"]["name"]), str(info["config"]["target"])
            remedy = f"`headwater pipeline info {name}` shows it whole; the page on pipelines has remedies"
            said = f"does not run: {info.get('problem', '')}"
            yield Attention(CRITICAL, snapshot.site, f"pipeline {name}", said, remedy, stream=target)


def _site(snapshot: SiteSnapshot) -> Iterator[Attention]:
    if snapshot.error:
        remedy = "check that the server runs and that the context's address and credentials are right"
        yield Attention(CRITICAL, snapshot.site, "site", snapshot.error, remedy)
    elif snapshot.metrics_error:
        remedy = "pass the address of the engine's --http-port, or start the engine with one"
        yield Attention(NOTICE, snapshot.site, "monitoring", snapshot.metrics_error, remedy)


def _engine(snapshot: SiteSnapshot) -> Iterator[Attention]:
    """Report what /readyz says is wrong, except for streams, which are listed one by one."""
    for check, problem in (snapshot.readiness.get("checks") or {}).items():
        if problem == "ok" or check == "streams":
            continue
        remedy = _CHECK_REMEDIES.get(check, "see the engine's log")
        yield Attention(CRITICAL, snapshot.site, f"engine, {check}", f"not ready: {problem}", remedy)


def _disk(snapshot: SiteSnapshot) -> Iterator[Attention]:
    if snapshot.metrics is None:
        return
    size = snapshot.metrics.value("headwater_disk_size_bytes")
    free = snapshot.metrics.value("headwater_disk_free_bytes")
    if not size or free is None or free / size >= DISK_WARNING:
        return
    severity = CRITICAL if free / size < DISK_CRITICAL else WARNING
    said = f"{free / size:.0%} of the store's disk is free"
    yield Attention(severity, snapshot.site, "disk", said, "free space, add some, or lower limits of streams")


def _account(snapshot: SiteSnapshot) -> Iterator[Attention]:
    limits = snapshot.account.get("limits") or {}
    for used, limit, word in (
        ("storage", "max_storage", "bytes of file storage"),
        ("memory", "max_memory", "bytes of memory storage"),
        ("streams", "max_streams", "streams"),
        ("consumers", "max_consumers", "consumers"),
    ):
        share = _share(snapshot.account.get(used), limits.get(limit))
        if share >= NEARLY_FULL:
            said = f"the account has used {share:.0%} of the {word} that it may have"
            yield Attention(
                WARNING, snapshot.site, "account", said, "raise the limit, or remove what is unused"
            )


def _stream(snapshot: SiteSnapshot, name: str, info: Json) -> Iterator[Attention]:
    site, config, state = snapshot.site, info["config"], info["state"]
    if error := (info.get("headwater") or {}).get("error"):
        remedy = "messages are refused or not folded until this is repaired"
        yield Attention(CRITICAL, site, name, str(error), remedy, name)
    cluster = info.get("cluster") or {}
    if config.get("num_replicas", 1) > 1 and cluster and not cluster.get("leader"):
        yield Attention(
            CRITICAL, site, name, "the stream has no leader", "check the servers of the cluster", name
        )
    if config.get("discard") != "new":
        return  # a full stream that discards old messages does what it was made for
    for used, limit, word in (("messages", "max_msgs", "messages"), ("bytes", "max_bytes", "bytes")):
        share = _share(state.get(used), config.get(limit))
        if share >= NEARLY_FULL:
            said = (
                f"the stream holds {share:.0%} of the {word} that it may hold, and then refuses new messages"
            )
            yield Attention(WARNING, site, name, said, f"raise {limit}, or consume or purge messages", name)


def _upstream(
    site: str, stream: str, upstream: UpstreamInfo, lags: Sequence[float | None]
) -> Iterator[Attention]:
    about = f"{stream} from {upstream.name}"
    if upstream.error:
        remedy = upstream_remedy(upstream)
        yield Attention(CRITICAL, site, about, f"nothing is copied: {upstream.error}", remedy, stream)
    elif upstream.phase in (Phase.RETRYING, Phase.STALLED):
        remedy = upstream_remedy(upstream)
        yield Attention(CRITICAL, site, about, f"the copy is {upstream.phase}", remedy, stream)
    elif grows(lags):
        first, last = (int(lag or 0) for lag in (lags[0], lags[-1]))
        said = f"the lag grows: from {counted(first, 'message')} to {counted(last, 'message')} in a minute"
        yield Attention(
            WARNING, site, about, said, "give the replicator more cores, or the link more room", stream
        )
    if upstream.gap_count:
        why = upstream.gaps[-1].reason if upstream.gaps else "unknown"
        lost = counted(upstream.gap_sequences or 0, "sequence")
        said = f"the origin removed {lost} before they were copied, last by {why}"
        yield Attention(
            WARNING, site, about, said, "raise the limits of the origin, or copy it sooner", stream
        )


def grows(lags: Sequence[float | None]) -> bool:
    """Return whether a lag is not small and was larger in each third of the time than before."""
    known = [lag for lag in lags if lag is not None]
    if len(known) < GROWING_POINTS or known[-1] < LEAST_LAG:
        return False
    third = len(known) // 3
    parts = [sum(known[place : place + third]) for place in (0, third, 2 * third)]
    return parts[0] < parts[1] < parts[2] and known[-1] > 1.1 * known[0]


def _consumer(site: str, stream: str, consumer: Json) -> Iterator[Attention]:
    config = consumer.get("config") or {}
    about = f"{stream} › {consumer.get('name', '')}"
    pending, limit = consumer.get("num_ack_pending") or 0, config.get("max_ack_pending") or 0
    if limit > 0 and pending >= limit and config.get("ack_policy") != "none":
        said = f"nothing more is delivered: {counted(pending, 'message')} wait for their ack, as many as may"
        remedy = "check that clients acknowledge, or raise max_ack_pending"
        yield Attention(CRITICAL, site, about, said, remedy, stream)
    redelivered = consumer.get("num_redelivered") or 0
    if redelivered >= MANY_REDELIVERED:
        said = f"{counted(redelivered, 'message')} without an ack were delivered more than once"
        remedy = "check what clients do with these messages, raise ack_wait, or set max_deliver"
        yield Attention(WARNING, site, about, said, remedy, stream)


def _share(used: Any, limit: Any) -> float:
    """Return how much of a limit is used; 0 without a limit."""
    return float(used or 0) / float(limit) if limit and float(limit) > 0 else 0.0
