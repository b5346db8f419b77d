"""One stream in full: its config, the status of its upstreams, and its state."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from headwater.cli import reports
from headwater.cli.phrases import duration, limit, moment, number, seen, setting, size
from headwater.cli.render import Cell, LabelledRows
from headwater.cli.session import Json
from headwater.cli.stream.upstream_progress import progress_lines
from headwater.errors import SettingsError
from headwater.model.row_pipeline import KEY, pipelines_in

Lines = list[tuple[str, Cell]]


def info_rows(info: Json) -> LabelledRows:
    """Return a stream's config, upstreams and state."""
    config = info["config"]
    rows = LabelledRows(f"Information for Stream {config['name']} created {moment(info.get('created', ''))}")
    _about(config, rows.section(""))
    _options(config, rows.section("Options"))
    _limits(config, rows.section("Limits"))
    rows.section("Metadata").extend(
        (key, value)
        for key, value in sorted((config.get("metadata") or {}).items())
        if not key.startswith("_nats.") and key != KEY
    )
    _replication(config, rows.section("Replication"))
    _cluster(info.get("cluster") or {}, rows.section("Cluster Information"))
    if info.get("mirror"):
        _upstreams([info["mirror"]], rows.section("Mirror Information"))
    _upstreams(
        [s for kind, s in reports.upstreams(info) if kind == "Source"], rows.section("Source Information")
    )
    _state(info, rows.section("State"))
    return rows


def state_rows(info: Json) -> LabelledRows:
    """Return a stream's state."""
    rows = LabelledRows(
        f"State for Stream {info['config']['name']} created {moment(info.get('created', ''))}"
    )
    _state(info, rows.section("State"))
    return rows


def _about(config: Json, lines: Lines) -> None:
    placement = config.get("placement") or {}
    lines += _said(
        ("Description", config.get("description")),
        ("Subjects", ", ".join(config.get("subjects") or ())),
        ("Replicas", str(config.get("num_replicas", 1))),
        ("Sealed", "true" if config.get("sealed") else ""),
        ("Storage", str(config.get("storage", "")).capitalize()),
        ("Compression", _unless("none", config.get("compression"))),
        ("Persistence Mode", _unless("default", config.get("persist_mode"))),
        ("First Sequence", number(config["first_seq"]) if config.get("first_seq") else ""),
        ("Placement Cluster", placement.get("cluster")),
        ("Placement Tags", ", ".join(placement.get("tags") or ())),
    )


def _options(config: Json, lines: Lines) -> None:
    transform, republish = config.get("subject_transform"), config.get("republish")
    retention = {"workqueue": "WorkQueue"}.get(config["retention"], str(config["retention"]).capitalize())
    discard = str(config.get("discard", "old")).capitalize()
    marker = config.get("subject_delete_marker_ttl")
    lines += _said(
        ("Subject Transform", f"{transform.get('src')} to {transform.get('dest')}" if transform else ""),
        ("Republishing", f"{republish.get('src', '>')} to {republish.get('dest')}" if republish else ""),
        ("Republishing Headers", "true" if republish and republish.get("headers_only") else ""),
        ("Retention", retention),
        ("Acknowledgments", _truth(not config.get("no_ack"))),
        ("Discard Policy", f"{discard} Per Subject" if config.get("discard_new_per_subject") else discard),
        ("Duplicate Window", setting(config["duplicate_window"]) if config.get("duplicate_window") else "0s"),
        ("Direct Get", "true" if config.get("allow_direct") else ""),
        ("Mirror Direct Get", "true" if config.get("mirror_direct") else ""),
        ("Allows Atomic Batch Publish", _truth(config.get("allow_atomic"))),
        ("Allows Fast Batch Publish", _truth(config.get("allow_batched"))),
        ("Allows Counters", _truth(config.get("allow_msg_counter"))),
        ("Allows Msg Delete", _truth(not config.get("deny_delete"))),
        ("Allows Per-Message TTL", _truth(config.get("allow_msg_ttl"))),
        ("Allows Purge", _truth(not config.get("deny_purge"))),
        ("Allows Schedules", _truth(config.get("allow_msg_schedules"))),
        ("Subject Delete Markers TTL", setting(marker) if marker else ""),
        ("Allows Rollups", _truth(config.get("allow_rollup_hdrs"))),
    )


def _limits(config: Json, lines: Lines) -> None:
    of_consumers = config.get("consumer_limits") or {}
    threshold, pending = of_consumers.get("inactive_threshold"), of_consumers.get("max_ack_pending")
    lines += _said(
        ("Maximum Messages", limit(config.get("max_msgs", -1))),
        ("Maximum Per Subject", limit(config.get("max_msgs_per_subject", -1))),
        ("Maximum Bytes", limit(config.get("max_bytes", -1), size)),
        ("Maximum Age", setting(config.get("max_age", 0))),
        ("Maximum Message Size", limit(config.get("max_msg_size", -1), size)),
        ("Maximum Consumers", limit(config.get("max_consumers", -1))),
        ("Consumer Inactive Threshold", setting(threshold) if threshold else ""),
        ("Consumer Max Ack Pending", number(pending) if pending else ""),
    )


def _replication(config: Json, lines: Lines) -> None:
    if config.get("mirror"):
        lines.append(("Mirror", _declared(config["mirror"])))
    sources = sorted(config.get("sources") or (), key=lambda source: str(source["name"]))
    if sources:
        lines.append(("Sources", "\n".join(map(_declared, sources))))
    _pipelines(config, lines)


def _pipelines(config: Json, lines: Lines) -> None:
    try:
        found = pipelines_in(config.get("metadata"))
    except SettingsError as error:
        lines.append(("Row Pipeline", str(error)))
        return
    for pipeline in found:
        lines += _said(
            ("Row Pipeline", pipeline.source or "every source"),
            ("Where", pipeline.where),
            ("Select", pipeline.select),
            ("Dead Letters", pipeline.dead_letters),
        )


def _declared(upstream: Json) -> str:
    external, consumer = upstream.get("external") or {}, upstream.get("consumer") or {}
    said = [upstream["name"]]
    said += [f"Start Seq: {number(upstream['opt_start_seq'])}"] if upstream.get("opt_start_seq") else []
    said += [f"Start Time: {moment(upstream['opt_start_time'])}"] if upstream.get("opt_start_time") else []
    said += [f"Filter: {filters}"] if (filters := reports.filters(upstream)) else []
    said += [f"API Prefix: {external['api']}"] if external.get("api") else []
    said += [f"Delivery Prefix: {external['deliver']}"] if external.get("deliver") else []
    said += [f"Consumer Name: {consumer['name']}"] if consumer.get("name") else []
    return ", ".join(said)


def _cluster(cluster: Json, lines: Lines) -> None:
    if not cluster.get("name"):
        return
    lines += _said(
        ("Name", cluster["name"]),
        ("Cluster Group", cluster.get("raft_group")),
        ("Leader", cluster.get("leader") or Text("none: the stream cannot be written", "bold red")),
    )
    for peer in cluster.get("replicas") or ():
        lines.append(("Replica", _peer(peer)))


def _peer(peer: Json) -> Text:
    current = bool(peer.get("current"))
    said = [peer["name"], "current" if current else "outdated"]
    said += ["OFFLINE"] if peer.get("offline") else []
    said.append(f"seen {duration(peer['active'])} ago" if peer.get("active", 0) > 0 else "not seen")
    said += [f"{number(peer['lag'])} operations behind"] if peer.get("lag") else []
    return Text(", ".join(said), "" if current and not peer.get("offline") else "bold red")


def _upstreams(upstreams: Sequence[Json], lines: Lines) -> None:
    for upstream in upstreams:
        if lines:
            lines.append(("", ""))
        external = upstream.get("external") or {}
        transforms = upstream.get("subject_transforms")
        lines += _said(
            ("Stream Name", upstream["name"]),
            ("Subject Filter and Transform" if transforms else "Subject Filter", _taken(upstream)),
            ("Lag", reports.lag(upstream)),
            ("Last Seen", Text(seen(int(upstream.get("active") or 0)), reports.active(upstream).style)),
            ("Ext. API Prefix", external.get("api")),
            ("Ext. Delivery Prefix", external.get("deliver")),
            ("Error", reports.error(upstream)),
        )
        lines += progress_lines(upstream)


def _taken(upstream: Json) -> str:
    if upstream.get("subject_transforms"):
        return reports.filters(upstream)
    return str(upstream.get("filter_subject") or "")


def _state(info: Json, lines: Lines) -> None:
    state, notes = info["state"], info["config"].get("metadata") or {}
    level = notes.get("_nats.level")
    hosted = f"{notes.get('_nats.req.level', '0')} hosted at level {level}" if level else ""
    alternates = info.get("alternates") or ()
    lines += _said(
        ("Host Version", notes.get("_nats.ver")),
        ("Required API Level", hosted),
        ("Messages", number(state.get("messages", 0))),
        ("Bytes", size(state.get("bytes", 0))),
        ("Lost Messages", reports.lost(state) if state.get("lost") else ""),
        ("First Sequence", _sequence(state.get("first_seq", 0), state.get("first_ts", ""))),
        ("Last Sequence", _sequence(state.get("last_seq", 0), state.get("last_ts", ""))),
        ("Deleted Messages", number(state["num_deleted"]) if state.get("num_deleted") else ""),
        ("Active Consumers", number(state.get("consumer_count", 0))),
        ("Number of Subjects", number(state["num_subjects"]) if state.get("num_subjects") else ""),
        ("Alternates", "\n".join(f"{each['name']}: {each.get('cluster', '')}" for each in alternates)),
    )


def _sequence(sequence: int, time: str) -> str:
    at = moment(time)
    return f"{number(sequence)} @ {at}" if at else number(sequence)


def _said(*lines: tuple[str, Cell | None]) -> Lines:
    """Return the lines whose value is not empty."""
    return [(label, value) for label, value in lines if value]


def _truth(value: object) -> str:
    return "true" if value else "false"


def _unless(usual: str, value: str | None) -> str:
    return "" if value in (None, "", usual) else str(value).upper() if value == "s2" else str(value)
