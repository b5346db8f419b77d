"""Changes that a browser asks for, as requests of the JetStream API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.errors import SettingsError
from headwater.model.times import SECOND, format_time, parse_duration

Fields = Mapping[str, str]
Json = dict[str, Any]

MOST_JSON_LETTERS = 500_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", flags=re.ASCII | re.IGNORECASE)
_DAYS = re.compile(r"(\d+)d", flags=re.ASCII)
_DAY_NS = 24 * 3600 * SECOND
LONGEST_PAUSE_NS = 365 * _DAY_NS


class ChangeRequest(NamedTuple):
    """One request of the API."""

    endpoint: str
    body: Json | None


def stream_config(fields: Fields) -> Json:
    """Return the configuration that a form describes; what is left empty is left to the server."""
    config: Json = {"name": fields.get("name", "").strip()}
    if subjects := _words(fields, "subjects"):
        config["subjects"] = subjects
    config |= _texts(fields, "description", "storage", "retention", "discard")
    config |= _numbers(fields, "max_msgs", "max_msgs_per_subject", "num_replicas")
    for name in ("max_bytes", "max_msg_size"):
        if text := fields.get(name, "").strip():
            config[name] = size_of(text)
    if text := fields.get("max_age", "").strip():
        config["max_age"] = duration_of(text)
    if fields.get("allow_direct"):
        config["allow_direct"] = True
    if text := fields.get("mirror", "").strip():
        config["mirror"] = upstream_of(text)
    if lines := fields.get("sources", "").strip():
        config["sources"] = [upstream_of(line) for line in lines.splitlines() if line.strip()]
    return config


def upstream_of(line: str) -> Json:
    """Return a source or a mirror: a stream, then options such as `domain=hub filter=orders.>`."""
    name, *options = line.split()
    found: Json = {"name": name}
    for option in options:
        key, _, value = option.partition("=")
        if key == "domain" and value:
            found["external"] = {"api": f"$JS.{value}.API"}
        elif key == "api" and value:
            found["external"] = {"api": value}
        elif key == "filter" and value:
            found["filter_subject"] = value
        elif key == "start_seq" and value.isdecimal():
            found["opt_start_seq"] = int(value)
        else:
            raise SettingsError(
                f"{option!r} is no option of a source: "
                "write domain=NAME, api=PREFIX, filter=SUBJECT or start_seq=N"
            )
    return found


def consumer_config(fields: Fields) -> Json:
    """Return the configuration of a consumer that a form describes."""
    name = fields.get("name", "").strip()
    config: Json = {"name": name, "durable_name": name}
    filters = _words(fields, "filter_subjects")
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        config["filter_subjects"] = filters
    config |= _texts(fields, "description", "deliver_policy", "ack_policy", "deliver_subject")
    config |= _numbers(fields, "max_deliver", "max_ack_pending", "opt_start_seq")
    if text := fields.get("ack_wait", "").strip():
        config["ack_wait"] = duration_of(text)
    return config


def json_object(text: str) -> Json:
    """Return the JSON object that was edited in a browser."""
    if len(text) > MOST_JSON_LETTERS:
        raise SettingsError("the configuration is too long")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the configuration is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError("the configuration must be a JSON object")
    try:
        shown_json(found).encode()
    except (UnicodeEncodeError, RecursionError):
        raise SettingsError("the configuration contains half of a character, or is too deep") from None
    return found


def shown_json(value: Any) -> str:
    """Return JSON as it is shown for editing."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def create_stream(config: Json) -> ChangeRequest:
    """Return the request that creates a stream."""
    return ChangeRequest(f"STREAM.CREATE.{one_token(config.get('name'))}", config)


def update_stream(stream: str, config: Json) -> ChangeRequest:
    """Return the request that changes a stream's configuration."""
    if config.get("name", stream) != stream:
        raise SettingsError(f"the name of a stream cannot be changed: it is {stream}")
    return ChangeRequest(f"STREAM.UPDATE.{one_token(stream)}", config)


def delete_stream(stream: str, typed: str) -> ChangeRequest:
    """Return the request that deletes a stream with its messages."""
    _require_typed(stream, typed)
    return ChangeRequest(f"STREAM.DELETE.{one_token(stream)}", None)


def purge_stream(stream: str, typed: str, fields: Fields) -> ChangeRequest:
    """Return the request that removes messages: all, or those of a subject or before a sequence."""
    _require_typed(stream, typed)
    body: Json = {}
    if subject := fields.get("filter", "").strip():
        body["filter"] = subject
    body |= _numbers(fields, "seq", "keep")
    if "seq" in body and "keep" in body:
        raise SettingsError("seq and keep exclude each other: fill in one of them")
    return ChangeRequest(f"STREAM.PURGE.{one_token(stream)}", body or None)


def put_consumer(stream: str, config: Json, *, exists: bool) -> ChangeRequest:
    """Return the request that creates a consumer, or changes one that exists."""
    name = one_token(config.get("name") or config.get("durable_name"))
    body = {"stream_name": stream, "config": config, "action": "update" if exists else "create"}
    return ChangeRequest(f"CONSUMER.CREATE.{one_token(stream)}.{name}", body)


def delete_consumer(stream: str, consumer: str, typed: str) -> ChangeRequest:
    """Return the request that deletes a consumer."""
    _require_typed(consumer, typed)
    return ChangeRequest(f"CONSUMER.DELETE.{one_token(stream)}.{one_token(consumer)}", None)


def pause_consumer(stream: str, consumer: str, length: str, now_ns: int) -> ChangeRequest:
    """Return the request that pauses deliveries for a while; no length resumes them."""
    endpoint = f"CONSUMER.PAUSE.{one_token(stream)}.{one_token(consumer)}"
    if not length.strip():
        return ChangeRequest(endpoint, None)
    length_ns = duration_of(length)
    if length_ns > LONGEST_PAUSE_NS:
        raise SettingsError("a pause is at most 365d")
    return ChangeRequest(endpoint, {"pause_until": format_time(now_ns + length_ns)})


def one_token(name: Any) -> str:
    """Return a name that can be one token of a subject, so that no request reaches another endpoint."""
    text = name if isinstance(name, str) else ""
    if not text or any(letter.isspace() or letter in ".*>" or not letter.isprintable() for letter in text):
        raise SettingsError(
            f"{text!r} is not a valid name: it must not be empty nor contain spaces, '.', '*' or '>'"
        )
    return text


def size_of(text: str) -> int:
    """Return the bytes of `1024`, `64KB` or `1.5GiB`; -1 is no limit."""
    if text.strip() == "-1":
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise SettingsError(f"{text!r} is not a size such as 1024, 64KB or 1GiB")
    return int(float(found[1]) * 1024 ** " KMGT".index((found[2] or " ").upper()))


def duration_of(text: str) -> int:
    """Return the nanoseconds of `7d`, `90m` or `500ms`."""
    rest, days = text.strip(), 0
    if found := _DAYS.match(rest):
        days, rest = int(found[1]), rest[found.end() :]
    ns = parse_duration(rest) if rest else 0
    if ns is None or ns < 0 or not (days or rest):
        raise SettingsError(f"{text!r} is not a duration such as 30s, 1h30m or 7d")
    return days * _DAY_NS + ns


def _require_typed(name: str, typed: str) -> None:
    if typed != name:
        raise SettingsError(f"type the name {name} to confirm")


def _words(fields: Fields, name: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", fields.get(name, "")) if word]


def _texts(fields: Fields, *names: str) -> Json:
    return {name: text for name in names if (text := fields.get(name, "").strip())}


def _numbers(fields: Fields, *names: str) -> Json:
    found: Json = {}
    for name in names:
        text = fields.get(name, "").strip()
        if not text:
            continue
        if re.fullmatch(r"-?\d{1,18}", text, flags=re.ASCII) is None:
            raise SettingsError(f"{name} must be a number, not {text!r}")
        found[name] = int(text)
    return found
