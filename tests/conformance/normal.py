"""What of an answer may differ between two runs, replaced by a placeholder once its form is checked."""

import re
from collections.abc import Callable
from typing import Any

# Go writes RFC 3339 with up to nine digits and without trailing zeros.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z")
ZERO_TIME = "0001-01-01T00:00:00Z"
VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
INBOX = re.compile(r"_INBOX\.\S+")
NUID = re.compile(r"[0-9A-Za-z]{22}")
TIME_IN_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _time(value: Any) -> Any:
    if value == ZERO_TIME or not isinstance(value, str) or not TIME.fullmatch(value):
        return value
    return "<time>"


def _start_time(value: Any) -> Any:
    """Times that a scenario made up stay as they are, those that the server gave do not."""
    return _time(value) if isinstance(value, str) and "." in value else value


def _matching(form: re.Pattern[str], placeholder: str) -> Callable[[Any], Any]:
    return lambda value: placeholder if isinstance(value, str) and form.fullmatch(value) else value


def _api(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    counted = {key: "<count>" for key in ("total", "errors") if isinstance(value.get(key), int)}
    return {key: item for key, item in (value | counted).items() if key != "inflight"}


def _named(value: Any) -> Any:
    return "<server>" if isinstance(value, str) and value else value


def _counted(value: Any) -> Any:
    return "<nanoseconds>" if type(value) is int and value > 0 else value


def _client(value: Any) -> Any:
    return "<client>" if isinstance(value, dict) and value else value


def _identity(upstream: dict[str, Any]) -> str:
    return str([upstream.get(key) for key in ("name", "filter_subject", "subject_transforms")])


def _upstream(value: Any) -> Any:
    """What Headwater adds to the status of a source or mirror is left out; nats-server has no order."""
    if isinstance(value, list):
        shown = [_upstream(one) for one in value]
        return sorted(shown, key=_identity) if shown != value else value
    if not isinstance(value, dict) or not isinstance(value.get("active"), int):
        return value
    # How far a filter has looked beyond the last message that it took depends on when it looked.
    hidden = {"active": "<nanoseconds>"} | ({"seq": "<position>"} if "seq" in value else {})
    return {key: item for key, item in value.items() if key != "headwater"} | hidden


RULES: dict[str, Callable[[Any], Any]] = {
    "created": _time,
    "ts": _time,
    "first_ts": _time,
    "last_ts": _time,
    "time": _time,
    "timestamp": _time,
    "start": _time,
    "end": _time,
    "Nats-Time-Stamp": _time,
    "last_active": _time,
    "opt_start_time": _start_time,
    "pinned_ts": _time,
    "pause_remaining": _counted,
    "ack_time": _counted,
    "pinned_client_id": _matching(NUID, "<pin>"),
    "pinned_id": _matching(NUID, "<pin>"),
    "Nats-Pin-Id": _matching(NUID, "<pin>"),
    "_nats.ver": _matching(VERSION, "<version>"),
    "id": _matching(NUID, "<id>"),
    "batch": _matching(NUID, "<id>"),
    "Nats-Batch-Id": _matching(NUID, "<id>"),
    "deliver_subject": _matching(INBOX, "<inbox>"),
    "leader": _named,
    "server": _named,
    "server_id": _named,
    "client": _client,
    "api": _api,
    "mirror": _upstream,
    "sources": _upstream,
}


def normalise(value: Any) -> Any:
    """Return the value with placeholders in place of times, identifiers, names of servers and versions."""
    if isinstance(value, dict):
        return {key: normalise(RULES[key](item) if key in RULES else item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalise(item) for item in value]
    return value
