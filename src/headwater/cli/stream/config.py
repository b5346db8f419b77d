"""A stream's config as flags, and the config that results from flags and a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from headwater.cli.config_editing import read_config
from headwater.cli.phrases import DURATION, SIZE
from headwater.cli.session import Json
from headwater.cli.stream.pipeline_flags import pipeline_flags, with_pipelines
from headwater.errors import ApiError, SettingsError
from headwater.wire.stream_json import decode_config

Command = TypeVar("Command", bound=Callable[..., Any])

RETENTIONS = {"limits": "limits", "interest": "interest", "workq": "workqueue", "work": "workqueue"}
_WHOLE = click.IntRange(min=-1)

# The key of the config, the flag, and its type: None for text, bool for a pair of flags.
_FLAGS: tuple[tuple[str, str, Any, str], ...] = (
    ("description", "--description", None, "Description of the stream."),
    ("storage", "--storage", click.Choice(["file", "memory"]), "Storage backend."),
    ("compression", "--compression", click.Choice(["none", "s2"]), "Compression of stored messages."),
    ("num_replicas", "--replicas", click.IntRange(1, 5), "Number of replicas."),
    ("retention", "--retention", click.Choice(list(RETENTIONS)), "Retention policy."),
    (
        "discard",
        "--discard",
        click.Choice(["old", "new"]),
        "At a limit, remove old messages or refuse new ones.",
    ),
    ("discard_new_per_subject", "--discard-per-subject", bool, "Apply --discard new to each subject."),
    ("first_seq", "--first-sequence", click.IntRange(min=0), "Sequence of the first message."),
    ("max_age", "--max-age", DURATION, "Maximum age of messages."),
    ("max_bytes", "--max-bytes", SIZE, "Maximum size of the stream."),
    ("max_consumers", "--max-consumers", _WHOLE, "Maximum number of consumers."),
    ("max_msg_size", "--max-msg-size", SIZE, "Maximum size of a message."),
    ("max_msgs", "--max-msgs", _WHOLE, "Maximum number of messages."),
    ("max_msgs_per_subject", "--max-msgs-per-subject", _WHOLE, "Maximum number of messages per subject."),
    ("duplicate_window", "--dupe-window", DURATION, "Window for detecting duplicates by message id."),
    ("allow_atomic", "--allow-batch", bool, "Allow atomic batches."),
    ("allow_batched", "--allow-fast", bool, "Allow fast batches."),
    ("allow_msg_counter", "--allow-counter", bool, "Make every subject a counter."),
    ("allow_rollup_hdrs", "--allow-rollup", bool, "Allow roll-up headers."),
    ("deny_delete", "--deny-delete", bool, "Deny deleting single messages."),
    ("deny_purge", "--deny-purge", bool, "Deny purging."),
    ("allow_direct", "--allow-direct", bool, "Answer direct gets."),
    ("mirror_direct", "--allow-mirror-direct", bool, "Answer direct gets of the mirrored stream."),
    ("allow_msg_ttl", "--allow-msg-ttl", bool, "Allow per-message TTLs."),
    ("allow_msg_schedules", "--allow-schedules", bool, "Allow scheduled messages."),
    ("subject_delete_marker_ttl", "--subject-del-markers-ttl", DURATION, "TTL of subject delete markers."),
    (
        "persist_mode",
        "--persist-mode",
        click.Choice(["default", "async"]),
        "Acknowledge publishes after (default) or before (async) they are stored.",
    ),
)
_LISTS = (
    ("subjects", "--subjects", "SUBJECT", "Subjects of the stream; repeatable, or separated by commas."),
    ("tags", "--tag", "TAG", "Tags of the servers to place it on; repeatable."),
    ("sources", "--source", "STREAM", "Source: a stream name or a JSON object; repeatable."),
    ("metadata", "--metadata", "KEY=VALUE", "Metadata; repeatable."),
)
_TEXTS = (
    ("cluster", "--cluster", "Cluster for the stream."),
    ("mirror", "--mirror", "Stream to mirror: a name or a JSON object."),
    ("transform_source", "--transform-source", "Subjects to transform before they are stored."),
    ("transform_destination", "--transform-destination", "Subjects after the transform."),
    ("republish_source", "--republish-source", "Subjects to republish once stored."),
    ("republish_destination", "--republish-destination", "Subjects to republish to."),
)


def config_flags(command: Command) -> Command:
    """Give a command one flag for each field of a stream's config; flags that are not given are None."""
    pending = click.option(
        "--limit-consumer-max-pending", type=int, help="Limit of --max-pending for consumers."
    )
    idle = click.option(
        "--limit-consumer-inactive", type=DURATION, help="Limit of --inactive-threshold for consumers."
    )
    command = pipeline_flags(pending(idle(command)))
    command = click.option("--republish-headers", is_flag=True, help="Republish only headers.")(command)
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
    """Return the config changed by the given flags."""
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
    return with_pipelines(changed, flags)


def read_upstream(text: str, flag: str) -> Json:
    """Return a source or mirror from its name or its JSON; `domain` is converted to an API prefix."""
    if not text.lstrip().startswith("{"):
        return {"name": text}
    try:
        upstream = msgspec.json.decode(text, type=Json)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{flag} is not a JSON object: {error}") from None
    if not upstream.get("name"):
        raise SettingsError(f'{flag} has no "name": add the name of the stream to copy from')
    if domain := upstream.pop("domain", ""):
        upstream["external"] = {"api": f"$JS.{domain}.API", "deliver": ""} | (upstream.get("external") or {})
    return upstream


def read_file(path: Path) -> Json:
    """Return the config in a JSON file, which may also be the output of `stream info --json`."""
    return read_config(path, "stream")


def check(config: Json) -> None:
    """Refuse a config with unknown fields or values of the wrong type, without a server."""
    try:
        decode_config(msgspec.json.encode(config))
    except ApiError as error:
        raise SettingsError(f"invalid config: {error.description}") from None


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
        raise SettingsError("missing republish destination: pass --republish-destination")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise SettingsError(f"--metadata {text!r} is invalid: pass KEY=VALUE")
        pairs[key] = value
    return pairs
