"""A consumer's config as flags: what each flag sets, and the config that flags and a file make together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from headwater.cli.phrases import DURATION, SIZE, read_duration, read_moment
from headwater.cli.session import Json
from headwater.errors import ApiError, SettingsError
from headwater.model.times import format_time
from headwater.wire.consumer_json import decode_config

Command = TypeVar("Command", bound=Callable[..., Any])

ACKS = ("explicit", "all", "none")
REPLAYS = ("instant", "original")
RESERVED = "_nats."
"""How the notes begin that the server keeps in the metadata."""
_START_WORDS = {
    "all": "all", "new": "new", "next": "new", "last": "last", "subject": "last_per_subject",
    "last_per_subject": "last_per_subject",
}  # fmt: skip
_POLICIES = {"pinned": "pinned_client", "overflow": "overflow", "prioritized": "prioritized"}

# The key of the config, the flag, its type (bool for a pair of flags), its help.
_CHANGEABLE: tuple[tuple[str, str, Any, str], ...] = (
    ("description", "--description", str, "What the consumer is for."),
    ("deliver_subject", "--target", str, "Push messages to this subject."),
    ("ack_wait", "--wait", DURATION, "How long an acknowledgement may take."),
    ("max_deliver", "--max-deliver", int, "How often a message is delivered at most; -1 for ever."),
    ("max_ack_pending", "--max-pending", int, "How many messages may wait for acknowledgement; -1 for any."),
    ("max_batch", "--max-pull-batch", click.IntRange(min=1), "How many messages one pull may ask for."),
    ("max_expires", "--max-pull-expire", DURATION, "How long one pull may wait."),
    ("max_bytes", "--max-pull-bytes", SIZE, "How many bytes one pull may ask for."),
    ("inactive_threshold", "--inactive-threshold", DURATION, "Remove it when nobody uses it for so long."),
    ("num_replicas", "--replicas", click.IntRange(0, 5), "How many servers of a cluster hold its state."),
    ("headers_only", "--headers-only", bool, "Deliver headers without data."),
)
_FIXED: tuple[tuple[str, str, Any, str], ...] = (
    ("ack_policy", "--ack", click.Choice(ACKS), "What settles a message."),
    ("replay_policy", "--replay", click.Choice(REPLAYS), "How fast stored messages are delivered."),
    ("deliver_group", "--deliver-group", str, "Push to subscribers of this queue group."),
    ("rate_limit_bps", "--bps", click.IntRange(min=0), "Push no more bits a second than this."),
    ("idle_heartbeat", "--heartbeat", DURATION, "Push a sign of life when idle for so long."),
    ("flow_control", "--flow-control", bool, "Push no faster than the subscriber takes it."),
    ("max_waiting", "--max-waiting", click.IntRange(min=1), "How many pulls may wait."),
    ("mem_storage", "--memory", bool, "Keep its state in memory."),
    ("priority_timeout", "--pinned-ttl", DURATION, "How long a pinned client may rest."),
)


def config_flags(command: Command, *, new: bool = True) -> Command:
    """Give a command the flags of a consumer's config; those that are fixed once it exists only if new."""
    if new:
        for kind in ("prioritized", "overflow", "pinned"):
            command = _listed(command, f"--{kind}-groups", f"{kind}_groups", "GROUP", f"Its {kind} groups.")
        command = click.option("--pause", metavar="TIME", help="Begin paused for so long, or until.")(command)
        command = click.option("--pull", is_flag=True, help="Let clients ask for messages.")(command)
        command = click.option("--ephemeral", is_flag=True, help="Let it go when nobody uses it.")(command)
        start = "Where to begin: all, new, last, subject, a sequence, or an age such as 1h."
        command = click.option("--deliver", metavar="START", help=start)(command)
    command = click.option("--backoff-max", type=DURATION, default="20m", help="Longest retry.")(command)
    command = click.option("--backoff-min", type=DURATION, default="1m", help="Shortest retry.")(command)
    command = click.option("--backoff-steps", type=click.IntRange(min=1), default=10, help="Retries.")(
        command
    )
    command = click.option("--backoff", type=click.Choice(["linear", "none"]), help="Retry later and later.")(
        command
    )
    command = click.option("--sample", type=click.IntRange(0, 100), help="Percent of acks to tell of.")(
        command
    )
    command = _listed(command, "--metadata", "metadata", "KEY=VALUE", "Note to keep with it; repeat.")
    command = _listed(command, "--filter", "filters", "SUBJECT", "Only these subjects; repeat.")
    for name, flag, kind, about in reversed((*_CHANGEABLE, *(_FIXED if new else ()))):
        if kind is bool:
            option = click.option(f"{flag}/--no-{flag.removeprefix('--')}", name, default=None, help=about)
        else:
            option = click.option(flag, name, type=kind, help=about)
        command = option(command)
    return command


def with_flags(config: Json, flags: Mapping[str, Any], now: Callable[[], int] = time.time_ns) -> Json:
    """Return the config changed by the flags that were given."""
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
    """Let the config take these subjects; none for all."""
    config.pop("filter_subject", None)
    config.pop("filter_subjects", None)
    if len(subjects) == 1:
        config["filter_subject"] = subjects[0]
    elif subjects:
        config["filter_subjects"] = list(subjects)


def set_start(config: Json, start: str, now: Callable[[], int] = time.time_ns) -> None:
    """Let the config begin at a word, a sequence, or so long ago."""
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
                f"--deliver {start!r} is unknown: say all, new, last, subject, a sequence or an age like 1h"
            ) from None
        config |= {"deliver_policy": "by_start_time", "opt_start_time": format_time(now() - age)}


def set_backoff(config: Json, steps: int, shortest: int, longest: int) -> None:
    """Let the config redeliver later and later, in even steps; it must be allowed as many deliveries."""
    if shortest >= longest:
        raise SettingsError("--backoff-min must be shorter than --backoff-max")
    config["backoff"] = [shortest + (longest - shortest) * step // steps for step in range(steps)]
    if 0 < (config.get("max_deliver") or 0) <= steps:
        raise SettingsError(f"--max-deliver must be more than the {steps} steps of the backoff")
    config.pop("ack_wait", None)


def read_pause(text: str, now: Callable[[], int] = time.time_ns) -> str:
    """Return the API's form of a time that was given as such, or as how long from now."""
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
    """Return the config in a JSON file; the answer of `consumer info --json` serves as well."""
    try:
        held = msgspec.json.decode(path.read_bytes(), type=Json)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path} is not a consumer's config: {error}") from None
    inner = held.get("config")
    return unreserved(inner if isinstance(inner, dict) else held)


def unreserved(config: Json) -> Json:
    """Return the config without the notes that the server keeps in its metadata."""
    notes = {k: v for k, v in (config.get("metadata") or {}).items() if not k.startswith(RESERVED)}
    rest = {key: value for key, value in config.items() if key != "metadata"}
    return {**rest, "metadata": notes} if notes else rest


def with_defaults(config: Json) -> Json:
    """Return the config with a default for what was left open."""
    pushes = bool(config.get("deliver_subject"))
    settled = {"deliver_policy": "all", "ack_policy": "none" if pushes else "explicit", **config}
    settled.setdefault("replay_policy", "instant")
    if settled["deliver_policy"] == "last_per_subject" and not (
        settled.get("filter_subject") or settled.get("filter_subjects")
    ):
        settled["filter_subject"] = ">"
    return settled


def check(config: Json) -> None:
    """Refuse a config with unknown fields or values of the wrong kind, before any server sees it."""
    try:
        decode_config(msgspec.json.encode(config))
    except ApiError as error:
        raise SettingsError(f"the config is not valid: {error.description}") from None


def _set_groups(changed: Json, flags: Mapping[str, Any]) -> None:
    given = {kind: _words(flags.get(f"{kind}_groups") or ()) for kind in _POLICIES}
    kinds = [kind for kind, groups in given.items() if groups]
    if len(kinds) > 1:
        raise SettingsError(f"a consumer has one kind of groups, not {' and '.join(kinds)}: leave one out")
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
            raise SettingsError(f"--metadata {text!r} is not KEY=VALUE")
        pairs[found[1]] = found[2]
    return pairs
