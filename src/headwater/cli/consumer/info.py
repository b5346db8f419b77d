"""Consumers as text: one in full, all of a stream as a list, and a report of their progress."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from headwater.cli import reports
from headwater.cli.consumer.config import RESERVED
from headwater.cli.phrases import duration, moment, number, since, size
from headwater.cli.render import Cell, Column, LabelledRows, Sheet
from headwater.cli.session import Json
from headwater.model.counted import counted
from headwater.model.times import SECOND, format_time, parse_time

Lines = list[tuple[str, Cell]]

_DELIVER = {"all": "All", "last": "Last", "new": "New", "last_per_subject": "Last Per Subject"}
_REPORT_COLUMNS = (
    Column("Consumer", wraps=True),
    Column("Mode"),
    Column("Ack Policy", wraps=True),
    Column("Ack Wait", wraps=True, gives_way=3),
    Column("Ack Pending", wraps=True),
    Column("Redelivered", gives_way=1),
    Column("Unprocessed", wraps=True),
    Column("Ack Floor", wraps=True),
    Column("API Level", wraps=True, gives_way=4),
    Column("Cluster", wraps=True, gives_way=2),
)
_LIST_COLUMNS = (
    Column("Name", wraps=True),
    Column("Description", wraps=True, gives_way=1),
    Column("Created", wraps=True),
    Column("Ack Pending", wraps=True),
    Column("Unprocessed"),
    Column("Last Delivery", wraps=True),
)


def info_rows(info: Json) -> LabelledRows:
    """Return a consumer's config and state."""
    rows = LabelledRows(f"Information for Consumer {_title(info)}")
    _config(info, rows.section("Configuration"))
    notes = info["config"].get("metadata") or {}
    rows.section("Metadata").extend(
        (key, value) for key, value in sorted(notes.items()) if not key.startswith(RESERVED)
    )
    _cluster(info.get("cluster") or {}, rows.section("Cluster Information"))
    _state(info, rows.section("State"))
    return rows


def state_rows(info: Json) -> LabelledRows:
    """Return a consumer's state."""
    rows = LabelledRows(f"State for Consumer {_title(info)}")
    _state(info, rows.section("State"))
    return rows


def list_sheet(infos: Iterable[Json]) -> Sheet:
    """Return the table of a stream's consumers."""
    ordered = sorted(infos, key=lambda info: str(info["name"]))
    return Sheet("Consumers", _LIST_COLUMNS, [_list_row(info) for info in ordered])


def report_sheet(stream: Json, infos: Iterable[Json], *, raw: bool = False) -> Sheet:
    """Return the progress of a stream's consumers."""
    name, held = stream["config"]["name"], stream["state"].get("messages", 0)
    ordered = sorted(infos, key=lambda info: str(info["name"]))
    title = f"Consumer report for {name} with {counted(len(ordered), 'consumer')}"
    return Sheet(title, _REPORT_COLUMNS, [_report_row(info, held, raw) for info in ordered])


def _title(info: Json) -> str:
    return f"{info['stream_name']} > {info['name']} created {moment(info.get('created', ''))}"


def _config(info: Json, lines: Lines) -> None:
    config = info["config"]
    pushes = bool(config.get("deliver_subject"))
    durable, name = config.get("durable_name"), config.get("name") or info["name"]
    acks, rate = config.get("ack_policy", "none"), config.get("rate_limit_bps", 0)
    lines += _said(
        ("Name", name),
        ("Durable Name", durable if durable != name else ""),
        ("Description", config.get("description")),
        ("Delivery Subject", config.get("deliver_subject")),
        ("Pull Mode", "" if pushes else "true"),
        ("Filter Subject", config.get("filter_subject")),
        ("Filter Subjects", ", ".join(config.get("filter_subjects") or ())),
        ("Deliver Policy", _start(config)),
        ("Deliver Queue Group", config.get("deliver_group") if pushes else ""),
        ("Ack Policy", _words(acks)),
        ("Ack Wait", duration(config.get("ack_wait", 0)) if acks != "none" else ""),
        ("Replay Policy", _words(config.get("replay_policy", "instant"))),
        ("Maximum Deliveries", number(config["max_deliver"]) if config.get("max_deliver", -1) > 0 else ""),
        ("Sampling Rate", config.get("sample_freq")),
        ("Rate Limit", f"{size(rate // 8)} / second" if rate else ""),
        ("Max Ack Pending", _positive(config.get("max_ack_pending"))),
        ("Max Waiting Pulls", _positive(config.get("max_waiting"))),
        ("Idle Heartbeat", _lasting(config.get("idle_heartbeat"))),
        ("Flow Control", ("true" if config.get("flow_control") else "false") if pushes else ""),
        ("Headers Only", "true" if config.get("headers_only") else ""),
        ("Inactive Threshold", _lasting(config.get("inactive_threshold"))),
        ("Max Pull Expire", _lasting(config.get("max_expires"))),
        ("Max Pull Batch", _positive(config.get("max_batch"))),
        ("Max Pull MaxBytes", _positive(config.get("max_bytes"))),
        ("Backoff", _backoff(config.get("backoff") or [])),
        ("Replicas", _positive(config.get("num_replicas"))),
        ("Memory Storage", "true" if config.get("mem_storage") else ""),
        ("Paused Until Deadline", _deadline(info)),
        ("Priority Policy", _words(config.get("priority_policy") or "")),
        ("Priority Groups", ", ".join(config.get("priority_groups") or ())),
        ("Pinned TTL", _lasting(config.get("priority_timeout"))),
    )  # fmt: skip


def _state(info: Json, lines: Lines) -> None:
    config, now = info["config"], _now(info)
    notes = config.get("metadata") or {}
    level, required = notes.get("_nats.level"), notes.get("_nats.req.level", "0")
    acks = config.get("ack_policy", "none") != "none"
    most = config.get("max_ack_pending", 0)
    outstanding = number(info.get("num_ack_pending", 0))
    outstanding += f" out of maximum {number(most)}" if most > 0 else ""
    lines += _said(
        ("Host Version", notes.get("_nats.ver")),
        ("Required API Level", f"{required} hosted at level {level}" if level else ""),
        ("Last Delivered Message", _place(info["delivered"], now, "Last delivery")),
        ("Acknowledgment Floor", _place(info["ack_floor"], now, "Last Ack") if acks else ""),
        ("Outstanding Acks", outstanding if acks else ""),
        ("Redelivered Messages", number(info.get("num_redelivered", 0)) if acks else ""),
        ("Unprocessed Messages", number(info.get("num_pending", 0))),
        ("Waiting Pulls", _waiting(info)),
        ("Active Interest", _interest(info)),
        ("Paused Until", _paused(info)),
        ("Priority Groups", _pins(info)),
    )  # fmt: skip


def _cluster(cluster: Json, lines: Lines) -> None:
    if not cluster.get("name"):
        return
    lines += _said(
        ("Name", cluster["name"]),
        ("Raft Group", cluster.get("raft_group")),
        ("Leader", cluster.get("leader")),
    )
    for peer in cluster.get("replicas") or ():
        current = "current" if peer.get("current") else "outdated"
        active = peer.get("active", 0)
        seen = f"seen {duration(active)} ago" if active > 0 else "not seen"
        lines.append(("Replica", f"{peer['name']}, {current}, {seen}"))


def _list_row(info: Json) -> list[Cell]:
    return [
        info["name"],
        info["config"].get("description", ""),
        moment(info.get("created", "")),
        number(info.get("num_ack_pending", 0)),
        number(info.get("num_pending", 0)),
        since(info["delivered"].get("last_active", ""), _now(info)),
    ]


def _report_row(info: Json, held: int, raw: bool) -> list[Cell]:
    config = info["config"]
    say = str if raw else number
    waiting, pending = info.get("num_pending", 0), info.get("num_ack_pending", 0)
    unprocessed = say(waiting)
    if waiting and not raw:
        unprocessed += f" / {min(100 * waiting // max(held, 1), 100)}%"
    most = config.get("max_ack_pending", 0)
    return [
        info["name"],
        "Push" if config.get("deliver_subject") else "Pull",
        _words(config.get("ack_policy", "none")),
        str(config.get("ack_wait", 0)) if raw else duration(config.get("ack_wait", 0)),
        # At the limit, the consumer delivers nothing until a message is acknowledged.
        Text(say(pending), "bold red" if 0 < most <= pending else ""),
        Text(say(info.get("num_redelivered", 0)), "yellow" if info.get("num_redelivered") else ""),
        unprocessed,
        say(info["ack_floor"].get("stream_seq", 0)),
        str((config.get("metadata") or {}).get("_nats.req.level", "0")),
        reports.replicas(info.get("cluster")),
    ]


def _start(config: Json) -> str:
    policy = str(config.get("deliver_policy", "all"))
    if policy == "by_start_time":
        return f"Since {moment(config.get('opt_start_time', ''))}"
    if policy == "by_start_sequence":
        return f"From Sequence {number(config.get('opt_start_seq', 0))}"
    return _DELIVER.get(policy, policy)


def _place(sequence: Json, now: int, what: str) -> str:
    said = f"Consumer sequence: {number(sequence.get('consumer_seq', 0))}"
    said += f" Stream sequence: {number(sequence.get('stream_seq', 0))}"
    last = sequence.get("last_active")
    return f"{said} {what}: {since(last, now)} ago" if last else said


def _waiting(info: Json) -> str:
    if info["config"].get("deliver_subject"):
        return ""
    most = info["config"].get("max_waiting", 0)
    return f"{number(info.get('num_waiting', 0))} of {f'maximum {number(most)}' if most else 'unlimited'}"


def _interest(info: Json) -> Cell:
    config = info["config"]
    if not config.get("deliver_subject"):
        return ""
    if not info.get("push_bound"):
        return Text("No interest", "yellow")
    group = config.get("deliver_group")
    return f"Active using Queue Group {group}" if group else "Active"


def _deadline(info: Json) -> str:
    until = moment(info["config"].get("pause_until", ""))
    if not until:
        return ""
    return f"{until} ({_remaining(info)} remaining)" if info.get("paused") else f"{until} (passed)"


def _paused(info: Json) -> Cell:
    if not info.get("paused"):
        return ""
    until = moment(format_time(_now(info) + info.get("pause_remaining", 0)))
    return Text(f"{until} ({_remaining(info)} remaining)", "yellow")


def _remaining(info: Json) -> str:
    return duration(info.get("pause_remaining", 0) // SECOND * SECOND)


def _pins(info: Json) -> str:
    if info["config"].get("priority_policy") != "pinned_client":
        return ""
    said = []
    for group in info.get("priority_groups") or ():
        pin = group.get("pinned_client_id")
        at = moment(group.get("pinned_ts", ""))
        said.append(f"{group['group']}: {f'pinned {pin} at {at}' if pin else 'No client'}")
    return "\n".join(said)


def _backoff(steps: list[int]) -> str:
    if len(steps) > 6:
        ends = [duration(steps[place]) for place in (0, 1, -2, -1)]
        return f"{ends[0]}, {ends[1]}, ..., {ends[2]}, {ends[3]} ({len(steps)} total)"
    return ", ".join(map(duration, steps))


def _now(info: Json) -> int:
    """Return the server's time of the info, so that the clocks need not agree."""
    return parse_time(info.get("ts", "")) or 0


def _said(*lines: tuple[str, Cell | None]) -> Lines:
    return [(label, value) for label, value in lines if value]


def _positive(value: int | None) -> str:
    return number(value) if value and value > 0 else ""


def _lasting(ns: int | None) -> str:
    return duration(ns) if ns and ns > 0 else ""


def _words(policy: str) -> str:
    return " ".join(word.capitalize() for word in policy.split("_"))
