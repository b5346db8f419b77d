"""A consumer's config as flags, and the config that results from flags and a file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from headwater.cli.config_editing import read_config
from headwater.cli.phrases import DURATION, SIZE, read_duration, read_moment
from headwater.cli.session import Json
from headwater.errors import ApiError, SettingsError
from headwater.model.times import format_time
from headwater.wire.consumer_json import decode_config

Command = TypeVar("Command", bound=Callable[..., Any])

ACKS = ("explicit", "all", "none")
REPLAYS = ("instant", "original")
RESERVED = "_nats."
"""Prefix of metadata that the server writes."""
_START_WORDS = {
    "all": "all", "new": "new", "next": "new", "last": "last", "subject": "last_per_subject",
    "last_per_subject": "last_per_subject",
}  # fmt: skip
_POLICIES = {"pinned": "pinned_client", "overflow": "overflow", "prioritized": "prioritized"}

# The key of the config, the flag, its type (bool for a pair of flags), its help.
_CHANGEABLE: tuple[tuple[str, str, Any, str], ...] = (
    ("description", "--description", str, "Description of the consumer."),
    ("deliver_subject", "--target", str, "Subject to push messages to."),
    ("ack_wait", "--wait", DURATION, "Time to acknowledge a message before it is redelivered."),
    ("max_deliver", "--max-deliver", int, "Maximum deliveries of a message; -1 for no limit."),
    ("max_ack_pending", "--max-pending", int, "Maximum unacknowledged messages; -1 for no limit."),
    ("max_batch", "--max-pull-batch", click.IntRange(min=1), "Maximum messages of one pull."),
    ("max_expires", "--max-pull-expire", DURATION, "Maximum expiry of one pull."),
    ("max_bytes", "--max-pull-bytes", SIZE, "Maximum bytes of one pull."),
    ("inactive_threshold", "--inactive-threshold", DURATION, "Delete the consumer if unused for this long."),
    ("num_replicas", "--replicas", click.IntRange(0, 5), "Number of replicas."),
    ("headers_only", "--headers-only", bool, "Deliver headers without data."),
)
_FIXED: tuple[tuple[str, str, Any, str], ...] = (
    ("ack_policy", "--ack", click.Choice(ACKS), "Acknowledgement policy."),
    (
        "replay_policy",
        "--replay",
        click.Choice(REPLAYS),
        "Replay policy: as fast as possible, or at the original pace.",
    ),
    ("deliver_group", "--deliver-group", str, "Queue group to push to."),
    ("rate_limit_bps", "--bps", click.IntRange(min=0), "Rate limit of pushes in bits per second."),
    ("idle_heartbeat", "--heartbeat", DURATION, "Interval of idle heartbeats."),
    ("flow_control", "--flow-control", bool, "Use flow control."),
    ("max_waiting", "--max-waiting", click.IntRange(min=1), "Maximum waiting pulls."),
    ("mem_storage", "--memory", bool, "Keep the consumer's state in memory."),
    ("priority_timeout", "--pinned-ttl", DURATION, "Time after which an idle pinned client loses its pin."),
)


def config_flags(command: Command, *, new: bool = True) -> Command:
    """Give a command the flags of a consumer's config; `new` adds those that cannot be edited."""
    if new:
        for kind in ("prioritized", "overflow", "pinned"):
            command = _listed(
                command,
                f"--{kind}-groups",
                f"{kind}_groups",
                "GROUP",
                f"Priority groups with the {kind} policy.",
            )
        command = click.option(
            "--pause", metavar="TIME", help="Start paused until this time, or for this long."
        )(command)
        command = click.option("--pull", is_flag=True, help="Create a pull consumer.")(command)
        command = click.option(
            "--ephemeral", is_flag=True, help="Create an ephemeral consumer, which is deleted when unused."
        )(command)
        start = "Start: all, new, last, subject, a sequence, or an age such as 1h."
        command = click.option("--deliver", metavar="START", help=start)(command)
    command = click.option("--backoff-max", type=DURATION, default="20m", help="Longest redelivery delay.")(
        command
    )
    command = click.option("--backoff-min", type=DURATION, default="1m", help="Shortest redelivery delay.")(
        command
    )
    command = click.option(
        "--backoff-steps", type=click.IntRange(min=1), default=10, help="Number of delays."
    )(command)
    command = click.option(
        "--backoff", type=click.Choice(["linear", "none"]), help="Increase the redelivery delay in steps."
    )(command)
    command = click.option("--sample", type=click.IntRange(0, 100), help="Percent of acks to sample.")(
        command
    )
    command = _listed(command, "--metadata", "metadata", "KEY=VALUE", "Metadata; repeatable.")
    command = _listed(command, "--filter", "filters", "SUBJECT", "Filter subject; repeatable.")
    for name, flag, kind, about in reversed((*_CHANGEABLE, *(_FIXED if new else ()))):
        if kind is bool:
            option = click.option(f"{flag}/--no-{flag.removeprefix('--')}", name, default=None, help=about)
        else:
            option = click.option(flag, name, type=kind, help=about)
        command = option(command)
    return command


def with_flags(config: Json, flags: Mapping[str, Any], now: Callable[[], int] = time.time_ns) -> Json:
    """Return the config changed by the given flags."""
    changed = dict(config)
    for name, _, _, _ in (*_CHANGEABLE, *_FIXED):
        if flags.get(name) is not None:
            changed[name] = flags[name]
    if flags["filters"]:
        set_filters(changed, _words(flags["filters"]))
    if flags["metadata"]:
        changed["metadata"] = {**(changed.get("metadata") or {}), **_pairs(flags["metadata"])}
    if flags["sample"] is not None:
        changed["sample_freq"] = str(flags["sample"]) if flags["sample"] else ""
    if flags.get("deliver"):
        set_start(changed, flags["deliver"], now)
    if flags["backoff"] == "none":
        changed.pop("backoff", None)
    elif flags["backoff"]:
        set_backoff(changed, flags["backoff_steps"], flags["backoff_min"], flags["backoff_max"])
    if flags.get("pause"):
        changed["pause_until"] = read_pause(flags["pause"], now)
    if flags.get("pull"):
        changed.pop("deliver_subject", None)
    _set_groups(changed, flags)
    return changed


def set_filters(config: Json, subjects: Sequence[str]) -> None:
    """Set the filter subjects; none for all."""
    config.pop("filter_subject", None)
    config.pop("filter_subjects", None)
    if len(subjects) == 1:
        config["filter_subject"] = subjects[0]
    elif subjects:
        config["filter_subjects"] = list(subjects)


def set_start(config: Json, start: str, now: Callable[[], int] = time.time_ns) -> None:
    """Set the start from a policy, a sequence, or an age."""
    for key in ("opt_start_seq", "opt_start_time"):
        config.pop(key, None)
    if start in _START_WORDS:
        config["deliver_policy"] = _START_WORDS[start]
    elif re.fullmatch(r"\d+", start):
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": int(start)}
    else:
        try:
            age = read_duration(start)
        except ValueError:
            raise SettingsError(
                f"--deliver {start!r} is invalid: pass all, new, last, subject, a sequence or an age (1h)"
            ) from None
        config |= {"deliver_policy": "by_start_time", "opt_start_time": format_time(now() - age)}


def set_backoff(config: Json, steps: int, shortest: int, longest: int) -> None:
    """Set evenly growing redelivery delays; `max_deliver` must allow that many."""
    if shortest >= longest:
        raise SettingsError("--backoff-min must be shorter than --backoff-max")
    config["backoff"] = [shortest + (longest - shortest) * step // steps for step in range(steps)]
    if 0 < (config.get("max_deliver") or 0) <= steps:
        raise SettingsError(f"--max-deliver must be more than the {steps} steps of the backoff")
    config.pop("ack_wait", None)


def read_pause(text: str, now: Callable[[], int] = time.time_ns) -> str:
    """Return the API's form of a time, or of a duration from now."""
    try:
        return read_moment(text)
    except ValueError:
        pass
    try:
        return format_time(now() + read_duration(text))
    except ValueError:
        raise SettingsError(
            f"{text!r} is neither a time (2026-01-31 12:00:00) nor a duration (1h30m)"
        ) from None


def read_file(path: Path) -> Json:
    """Return the config in a JSON file, which may also be the output of `consumer info --json`."""
    return unreserved(read_config(path, "consumer"))


def unreserved(config: Json) -> Json:
    """Return the config without the server's own metadata."""
    notes = {k: v for k, v in (config.get("metadata") or {}).items() if not k.startswith(RESERVED)}
    rest = {key: value for key, value in config.items() if key != "metadata"}
    return {**rest, "metadata": notes} if notes else rest


def with_defaults(config: Json) -> Json:
    """Return the config with defaults for missing keys."""
    pushes = bool(config.get("deliver_subject"))
    settled = {"deliver_policy": "all", "ack_policy": "none" if pushes else "explicit", **config}
    settled.setdefault("replay_policy", "instant")
    if settled["deliver_policy"] == "last_per_subject" and not (
        settled.get("filter_subject") or settled.get("filter_subjects")
    ):
        settled["filter_subject"] = ">"
    return settled


def check(config: Json) -> None:
    """Refuse a config with unknown fields or values of the wrong type, without a server."""
    try:
        decode_config(msgspec.json.encode(config))
    except ApiError as error:
        raise SettingsError(f"invalid config: {error.description}") from None


def _set_groups(changed: Json, flags: Mapping[str, Any]) -> None:
    given = {kind: _words(flags.get(f"{kind}_groups") or ()) for kind in _POLICIES}
    kinds = [kind for kind, groups in given.items() if groups]
    if len(kinds) > 1:
        raise SettingsError(
            f"a consumer has one kind of priority groups, not {' and '.join(kinds)}: leave one out"
        )
    if kinds:
        changed |= {"priority_policy": _POLICIES[kinds[0]], "priority_groups": given[kinds[0]]}


def _listed(command: Command, flag: str, name: str, metavar: str, about: str) -> Command:
    return click.option(flag, name, multiple=True, metavar=metavar, help=about)(command)


def _words(given: Iterable[str]) -> list[str]:
    return [word for text in given for word in re.split(r"[,\s]+", text) if word]


def _pairs(given: Iterable[str]) -> Json:
    pairs: Json = {}
    for text in given:
        found = re.fullmatch(r"([^=:]+)[=:](.*)", text)
        if found is None:
            raise SettingsError(f"--metadata {text!r} is invalid: pass KEY=VALUE")
        pairs[found[1]] = found[2]
    return pairs
