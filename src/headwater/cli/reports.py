"""The Stream Report and the Replication Report: the contents of streams, and the lag of their upstreams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from headwater.cli.phrases import MINUTE, number, seen, size
from headwater.cli.render import Cell, Column, Sheet
from headwater.cli.session import Json
from headwater.cli.stream.upstream_progress import UNKNOWN, is_known
from headwater.model.times import SECOND

LATE = 30 * SECOND
"""A live origin is seen more often than that: nats-server sends a heartbeat every few seconds."""
LOST = 2 * MINUTE
FAR_BEHIND = 1000

SORTS: Mapping[str, Callable[[Json], Any]] = {
    "bytes": lambda info: info["state"].get("bytes", 0),
    "consumers": lambda info: info["state"].get("consumer_count", 0),
    "messages": lambda info: info["state"].get("messages", 0),
    "name": lambda info: info["config"]["name"],
    "storage": lambda info: info["config"].get("storage", ""),
}

_STREAM_COLUMNS = (
    Column("Stream", wraps=True),
    Column("Storage"),
    Column("Placement", wraps=True, gives_way=4),
    Column("Consumers"),
    Column("Messages"),
    Column("Bytes"),
    Column("Lost", gives_way=1),
    Column("Deleted", gives_way=1),
    Column("API Level", gives_way=3),
    Column("Replicas", wraps=True, gives_way=2),
)
_AFTER_BYTES = 6
"""Where the rate is shown: after the messages and the bytes."""
_REPLICATION_COLUMNS = (
    Column("Stream", wraps=True),
    Column("Kind"),
    Column("API Prefix", wraps=True, gives_way=3),
    Column("Source Stream", wraps=True),
    Column("Filters and Transforms", wraps=True, gives_way=2),
    Column("Active"),
    Column("Lag"),
    Column("Error", wraps=True, gives_way=1),
)


def stream_report(
    infos: Iterable[Json], sort: str = "bytes", *, raw: bool = False, rates: Mapping[str, float] | None = None
) -> Sheet:
    """Return the table of all streams in ascending order, with messages a second where rates are known."""
    key = SORTS[sort]
    ordered = sorted(infos, key=lambda info: (key(info), info["config"]["name"]))
    rows = [_stream_row(info, raw) for info in ordered]
    if rates is None:
        return Sheet("Stream Report", _STREAM_COLUMNS, rows)
    for row, info in zip(rows, ordered, strict=True):
        row.insert(_AFTER_BYTES, per_second(rates.get(info["config"]["name"])))
    columns = (*_STREAM_COLUMNS[:_AFTER_BYTES], Column("Rate"), *_STREAM_COLUMNS[_AFTER_BYTES:])
    return Sheet("Stream Report", columns, rows)


def stored_rates(before: Iterable[Json], after: Iterable[Json], passed_s: float) -> dict[str, float]:
    """Return the messages a second that streams stored between two looks; new ones have no rate yet."""
    last = {info["config"]["name"]: int(info["state"].get("last_seq", 0)) for info in before}
    return {
        name: max(int(info["state"].get("last_seq", 0)) - last[name], 0) / max(passed_s, 1e-9)
        for info in after
        if (name := info["config"]["name"]) in last
    }


def per_second(rate: float | None) -> str:
    """Return a rate of messages, a dash while it is unknown."""
    return "-" if rate is None else f"{number(round(rate))}/s"


def replication_report(infos: Iterable[Json], *, raw: bool = False) -> Sheet | None:
    """Return the table of all mirrors and sources, or None if there are none."""
    ordered = sorted(infos, key=lambda info: str(info["config"]["name"]))
    rows = [
        _upstream_row(info["config"]["name"], kind, upstream, raw)
        for info in ordered
        for kind, upstream in upstreams(info)
    ]
    return Sheet("Replication Report", _REPLICATION_COLUMNS, rows) if rows else None


def upstreams(info: Json) -> list[tuple[str, Json]]:
    """Return the status of a stream's mirror or sources, each with its kind, sources ordered by name."""
    found = [("Mirror", info["mirror"])] if info.get("mirror") else []
    sources = sorted(info.get("sources") or (), key=lambda s: (s["name"], filters(s)))
    return found + [("Source", source) for source in sources]


def filters(upstream: Json) -> str:
    """Return the subject filters and transforms of an upstream."""
    transforms = upstream.get("subject_transforms") or ()
    said = [_transform(each.get("src", ""), each.get("dest", "")) for each in transforms]
    if not said and upstream.get("filter_subject"):
        said = [_transform(upstream["filter_subject"], "")]
    return ", ".join(said)


def lag(upstream: Json, *, raw: bool = False) -> Text:
    """Return the lag, coloured by its size; it is unknown if the origin is unreachable."""
    if not is_known(upstream):
        return Text(UNKNOWN, "bold red" if upstream.get("error") else "yellow")
    behind = int(upstream.get("lag") or 0)
    style = "bold red" if behind >= FAR_BEHIND else "yellow" if behind else ""
    return Text(str(behind) if raw else number(behind), style)


def active(upstream: Json, *, raw: bool = False) -> Text:
    """Return the time since the origin was last seen, coloured by its length."""
    ns = int(upstream.get("active") or 0)
    style = "bold red" if ns >= LOST else "yellow" if ns >= LATE or ns <= 0 else ""
    return Text(f"{ns}ns" if raw else seen(ns), style)


def error(upstream: Json) -> Text:
    """Return the error of an upstream and its code."""
    wrong = upstream.get("error")
    if not wrong:
        return Text("")
    return Text(f"{wrong.get('description', '')} ({wrong.get('err_code', 0)})", "bold red")


def lost(state: Json, *, raw: bool = False) -> Text:
    """Return how many messages are lost."""
    gone = state.get("lost")
    if not gone:
        return Text("0")
    count = len(gone.get("msgs") or ())
    if raw:
        return Text(str(count), "bold red")
    return Text(f"{number(count)} ({size(gone.get('bytes', 0))})", "bold red")


def replicas(cluster: Json | None) -> str:
    """Return the servers of a stream's cluster: `*` marks the leader, `!` one that lags or is offline."""
    if not cluster:
        return ""
    marks = {cluster["leader"]: "*"} if cluster.get("leader") else {}
    for peer in cluster.get("replicas") or ():
        marks[peer["name"]] = "!" if peer.get("offline") or not peer.get("current") else ""
    return ", ".join(name + mark for name, mark in sorted(marks.items()))


def inaccessible(title: str, names: Sequence[str]) -> Sheet:
    """Return the table of streams that did not answer, four in a row."""
    rows = [[*names[i : i + 4], *[""] * (4 - len(names[i : i + 4]))] for i in range(0, len(names), 4)]
    return Sheet(title, [Column("", wraps=True)] * 4, list(rows))


def leaders(infos: Iterable[Json]) -> Sheet:
    """Return the number of streams that each server leads, in ascending order."""
    counts: dict[tuple[str, str], int] = {}
    for info in infos:
        cluster = info.get("cluster") or {}
        if cluster.get("leader"):
            key = (cluster["leader"], cluster.get("name", ""))
            counts[key] = counts.get(key, 0) + 1
    rows: list[Sequence[Cell]] = [
        [server, group, number(count)]
        for (server, group), count in sorted(counts.items(), key=lambda item: (item[1], item[0]))
    ]
    return Sheet("Stream Leaders", [Column("Server"), Column("Cluster"), Column("Streams led")], rows)


def _stream_row(info: Json, raw: bool) -> list[Cell]:
    config, state = info["config"], info["state"]
    say: Any = str if raw else number
    return [
        config["name"],
        str(config.get("storage", "")).capitalize(),
        _placement(config.get("placement")),
        say(state.get("consumer_count", 0)),
        say(state.get("messages", 0)),
        str(state.get("bytes", 0)) if raw else size(state.get("bytes", 0)),
        lost(state, raw=raw),
        say(state.get("num_deleted", 0)),
        str((config.get("metadata") or {}).get("_nats.req.level", "0")),
        replicas(info.get("cluster")),
    ]


def _upstream_row(stream: str, kind: str, upstream: Json, raw: bool) -> list[Cell]:
    external = upstream.get("external") or {}
    return [
        stream,
        kind,
        external.get("api", ""),
        upstream["name"],
        filters(upstream),
        active(upstream, raw=raw),
        lag(upstream, raw=raw),
        error(upstream),
    ]


def _transform(source: str, destination: str) -> str:
    return f"{source or '>'} to {destination}" if destination else f"{source} untransformed"


def _placement(placement: Json | None) -> str:
    if not placement:
        return ""
    said = [f"cluster: {placement['cluster']}"] if placement.get("cluster") else []
    said += [f"tags: {', '.join(placement['tags'])}"] if placement.get("tags") else []
    return " ".join(said)
