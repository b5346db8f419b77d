"""A stream's config as flags: what each flag sets, and the config that flags and a file make together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from headwater.cli.phrases import DURATION, SIZE
from headwater.cli.session import Json
from headwater.errors import ApiError, SettingsError
from headwater.wire.stream_json import decode_config

Command = TypeVar("Command", bound=Callable[..., Any])

RETENTIONS = {"limits": "limits", "interest": "interest", "workq": "workqueue", "work": "workqueue"}
DEFAULTS: Mapping[str, Any] = {
    "retention": "limits",
    "storage": "file",
    "discard": "old",
    "num_replicas": 1,
    "max_msgs": -1,
    "max_msgs_per_subject": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msg_size": -1,
    "max_consumers": -1,
    "allow_direct": True,
}
_WHOLE = click.IntRange(min=-1)

# The key of the config, the flag, and its type: None for text, bool for a pair of flags.
_FLAGS: tuple[tuple[str, str, Any, str], ...] = (
    ("description", "--description", None, "What the stream is for."),
    ("storage", "--storage", click.Choice(["file", "memory"]), "Where messages are kept."),
    ("compression", "--compression", click.Choice(["none", "s2"]), "How messages are packed."),
    ("num_replicas", "--replicas", click.IntRange(1, 5), "How many servers of a cluster hold the data."),
    ("retention", "--retention", click.Choice(list(RETENTIONS)), "What lets a message go."),
    ("discard", "--discard", click.Choice(["old", "new"]), "Which message goes at a limit."),
    ("discard_new_per_subject", "--discard-per-subject", bool, "Refuse new messages subject by subject."),
    ("first_seq", "--first-sequence", click.IntRange(min=0), "Sequence of the first message."),
    ("max_age", "--max-age", DURATION, "How long a message stays."),
    ("max_bytes", "--max-bytes", SIZE, "How much the stream holds."),
    ("max_consumers", "--max-consumers", _WHOLE, "How many consumers it may have."),
    ("max_msg_size", "--max-msg-size", SIZE, "How large a message may be."),
    ("max_msgs", "--max-msgs", _WHOLE, "How many messages it holds."),
    ("max_msgs_per_subject", "--max-msgs-per-subject", _WHOLE, "How many of each subject."),
    ("duplicate_window", "--dupe-window", DURATION, "How long message ids are remembered."),
    ("allow_atomic", "--allow-batch", bool, "Allow atomic batches."),
    ("allow_batched", "--allow-fast", bool, "Allow fast batches."),
    ("allow_msg_counter", "--allow-counter", bool, "Make every subject a counter."),
    ("allow_rollup_hdrs", "--allow-rollup", bool, "Allow roll-ups by header."),
    ("deny_delete", "--deny-delete", bool, "Refuse to delete single messages."),
    ("deny_purge", "--deny-purge", bool, "Refuse to purge."),
    ("allow_direct", "--allow-direct", bool, "Answer direct gets."),
    ("mirror_direct", "--allow-mirror-direct", bool, "Answer direct gets of the mirrored stream."),
    ("allow_msg_ttl", "--allow-msg-ttl", bool, "Allow a time to live for each message."),
    ("allow_msg_schedules", "--allow-schedules", bool, "Allow scheduled messages."),
    ("subject_delete_marker_ttl", "--subject-del-markers-ttl", DURATION, "How long delete markers stay."),
    (
        "persist_mode",
        "--persist-mode",
        click.Choice(["default", "async"]),
        "Acknowledge when stored, or before.",
    ),
)
_LISTS = (
    ("subjects", "--subjects", "SUBJECT", "Subjects that the stream takes; repeat, or separate by commas."),
    ("tags", "--tag", "TAG", "Tags of the servers that may hold it; repeat."),
    ("sources", "--source", "STREAM", "Stream to copy from: a name, or a JSON object; repeat."),
    ("metadata", "--metadata", "KEY=VALUE", "Note to keep with the stream; repeat."),
)
_TEXTS = (
    ("cluster", "--cluster", "Cluster that holds it."),
    ("mirror", "--mirror", "Stream to mirror: a name, or a JSON object."),
    ("transform_source", "--transform-source", "Subjects to transform before they are stored."),
    ("transform_destination", "--transform-destination", "What they become."),
    ("republish_source", "--republish-source", "Subjects to publish again once stored."),
    ("republish_destination", "--republish-destination", "Where to."),
)


def config_flags(command: Command) -> Command:
    """Give a command one flag for each field of a stream's config; what is not given stays None."""
    pending = click.option("--limit-consumer-max-pending", type=int, help="Most pending acks of a consumer.")
    idle = click.option("--limit-consumer-inactive", type=DURATION, help="Longest idle time of a consumer.")
    command = pending(idle(command))
    command = click.option("--republish-headers", is_flag=True, help="Publish again without the data.")(
        command
    )
    command = click.option("--ack/--no-ack", default=None, help="Acknowledge publishes.")(command)
    for name, flag, help_text in reversed(_TEXTS):
        command = click.option(flag, name, help=help_text)(command)
    for name, flag, metavar, help_text in reversed(_LISTS):
        command = click.option(flag, name, multiple=True, metavar=metavar, help=help_text)(command)
    for name, flag, kind, help_text in reversed(_FLAGS):
        if kind is bool:
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
            command = click.option(flag, name, default=None, help=help_text)(command)
        else:
            command = click.option(flag, name, type=kind, help=help_text)(command)
    return command


def with_flags(config: Json, flags: Mapping[str, Any]) -> Json:
    """Return the config changed by the flags that were given."""
    changed = dict(config)
    for name, _, _, _ in _FLAGS:
        if flags[name] is not None:
            changed[name] = flags[name]
    if flags["retention"]:
        changed["retention"] = RETENTIONS[flags["retention"]]
    if flags["discard_new_per_subject"]:
        changed["discard"] = "new"
    if flags["ack"] is not None:
        changed["no_ack"] = not flags["ack"]
    if flags["subjects"]:
        changed["subjects"] = [
            s.strip() for given in flags["subjects"] for s in given.split(",") if s.strip()
        ]
    if flags["sources"]:
        changed["sources"] = [read_upstream(text, "--source") for text in flags["sources"]]
    if flags["mirror"]:
        changed["mirror"] = read_upstream(flags["mirror"], "--mirror")
    _place(changed, flags)
    _rewrite(changed, flags)
    return changed


def read_upstream(text: str, flag: str) -> Json:
    """Return a source or mirror from its name or its JSON; `domain` becomes the API prefix that it means."""
    if not text.lstrip().startswith("{"):
        return {"name": text}
    try:
        upstream = msgspec.json.decode(text, type=Json)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{flag} is not a JSON object: {error}") from None
    if not upstream.get("name"):
        raise SettingsError(f'{flag} needs a "name", the stream to copy from')
    if domain := upstream.pop("domain", ""):
        upstream["external"] = {"api": f"$JS.{domain}.API", "deliver": ""} | (upstream.get("external") or {})
    return upstream


def read_file(path: Path) -> Json:
    """Return the config in a JSON file; the answer of `stream info --json` serves as well."""
    try:
        held = msgspec.json.decode(path.read_bytes(), type=Json)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path} is not a stream's config: {error}") from None
    inner = held.get("config")
    return inner if isinstance(inner, dict) else held


def check(config: Json) -> None:
    """Refuse a config with unknown fields or values of the wrong kind, before any server sees it."""
    try:
        decode_config(msgspec.json.encode(config))
    except ApiError as error:
        raise SettingsError(f"the config is not valid: {error.description}") from None


def _place(changed: Json, flags: Mapping[str, Any]) -> None:
    placement = dict(changed.get("placement") or {})
    if flags["cluster"]:
        placement["cluster"] = flags["cluster"]
    if flags["tags"]:
        placement["tags"] = list(flags["tags"])
    if placement:
        changed["placement"] = placement
    limits = dict(changed.get("consumer_limits") or {})
    if flags["limit_consumer_inactive"] is not None:
        limits["inactive_threshold"] = flags["limit_consumer_inactive"]
    if flags["limit_consumer_max_pending"] is not None:
        limits["max_ack_pending"] = flags["limit_consumer_max_pending"]
    if limits:
        changed["consumer_limits"] = limits
    if flags["metadata"]:
        changed["metadata"] = {**(changed.get("metadata") or {}), **_pairs(flags["metadata"])}


def _rewrite(changed: Json, flags: Mapping[str, Any]) -> None:
    source, destination = flags["transform_source"], flags["transform_destination"]
    if source or destination:
        changed["subject_transform"] = {"src": source or ">", "dest": destination or ""}
    source, destination = flags["republish_source"], flags["republish_destination"]
    if destination:
        changed["republish"] = {
            "src": source or ">",
            "dest": destination,
            "headers_only": flags["republish_headers"],
        }
    elif source or flags["republish_headers"]:
        raise SettingsError("say where to publish again with --republish-destination")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise SettingsError(f"--metadata must be KEY=VALUE, not {text!r}")
        pairs[key] = value
    return pairs
