"""Questions about a new stream and its upstreams, for options that no flag sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwater.cli import ask
from headwater.cli.phrases import read_duration, read_moment, read_size
from headwater.cli.session import Json
from headwater.cli.stream.config import RETENTIONS
from headwater.cli.stream.defaults import DEFAULTS
from headwater.model.names import valid_stream_name

Question = Callable[[], Any]


def _whole(text: str) -> int:
    try:
        return max(int(text), -1)
    except ValueError:
        raise ValueError("enter a whole number, -1 for no limit") from None


def _sequence(text: str) -> int:
    if not text.isdigit():
        raise ValueError("enter a sequence, 0 for the first message")
    return int(text)


def _replicas(text: str) -> int:
    if text not in ("1", "2", "3", "4", "5"):
        raise ValueError("enter a number from 1 to 5")
    return int(text)


# In the order of the questions; keys that are in the config already are skipped.
_OF_EVERY_STREAM: Mapping[str, Question] = {
    "storage": lambda: ask.choice("Storage backend", ("file", "memory"), "file"),
    "retention": lambda: RETENTIONS[
        ask.choice("Retention Policy", ("Limits", "Interest", "Work"), "Limits").lower()
    ],
    "discard": lambda: ask.choice("Discard Policy", ("Old", "New"), "Old").lower(),
    "max_msgs": lambda: ask.text("Stream Messages Limit", "-1", _whole),
    "max_bytes": lambda: ask.text("Message size limit", "-1", read_size),
    "max_age": lambda: ask.text("Maximum message age limit", "-1", read_duration),
    "max_msg_size": lambda: ask.text("Maximum individual message size", "-1", read_size),
    "duplicate_window": lambda: ask.text("Duplicate tracking time window", "2m0s", read_duration),
    "allow_rollup_hdrs": lambda: ask.yes("Allow message Roll-ups", False),
    "deny_delete": lambda: not ask.yes("Allow message deletion", True),
    "deny_purge": lambda: not ask.yes("Allow purging subjects or the entire stream", True),
    "num_replicas": lambda: ask.text("Replicas", "1", _replicas),
}


STREAM_NAME = "a name without spaces, dots, wildcards and slashes"


def ask_name() -> str:
    """Return the name of a new stream."""

    def read(name: str) -> str:
        if not valid_stream_name(name):
            raise ValueError(STREAM_NAME)
        return name

    return str(ask.text("Stream Name", read=read))


def complete(config: Json, upstreams: bool = True) -> Json:
    """Return the config with answers for all missing keys."""
    answered = dict(config)
    if not any(answered.get(key) for key in ("subjects", "sources", "mirror")):
        answered["subjects"] = ask.text("Subjects", read=_subjects)
    for key, question in _OF_EVERY_STREAM.items():
        # A mirror copies all messages and does not detect duplicates.
        if key not in answered and not (key == "duplicate_window" and answered.get("mirror")):
            answered[key] = question()
    if upstreams and answered.get("mirror"):
        answered["mirror"] = _about(answered["mirror"], "mirror", "Mirror")
    if upstreams and answered.get("sources"):
        answered["sources"] = [
            _about(source, f'source "{source["name"]}"', f"{source['name']} Source")
            for source in answered["sources"]
        ]
    return {**DEFAULTS, **answered}


def _about(upstream: Json, what: str, prefix: str) -> Json:
    """Return an upstream with start, filter, domain and account; one given as JSON is complete."""
    if len(upstream) > 1:
        return upstream
    about = dict(upstream)
    if ask.yes(f"Adjust {what} start", False):
        about |= _start(prefix, "mirror" if what == "mirror" else "source")
    imported = "mirror" if what == "mirror" else f'"{upstream["name"]}"'
    if ask.yes(f"Import {imported} from a different JetStream domain", False):
        domain = ask.text(f"{prefix} foreign JetStream domain name", read=_needed)
        deliver = ask.text(f"{prefix} foreign JetStream domain delivery prefix")
        about["external"] = {"api": f"$JS.{domain}.API", "deliver": deliver}
    elif ask.yes(f"Import {imported} from a different account", False):
        api = ask.text(f"{prefix} foreign account API prefix", read=_needed)
        deliver = ask.text(f"{prefix} foreign account delivery prefix", read=_needed)
        about["external"] = {"api": api, "deliver": deliver}
    return about


def _start(prefix: str, kind: str) -> Json:
    """Return the start and the filter of an upstream."""
    start: Json = {}
    if sequence := ask.text(f"{prefix} Start Sequence", "0", _sequence):
        start["opt_start_seq"] = sequence
    else:
        stamp = ask.text(
            f"{prefix} UTC Time Stamp (YYYY-MM-DD HH:MM:SS)", read=lambda text: text and read_moment(text)
        )
        if stamp:
            start["opt_start_time"] = stamp
    if subject := ask.text(f"{prefix} Filter {kind} by subject"):
        start["filter_subject"] = subject
    return start


def _subjects(text: str) -> list[str]:
    subjects = [each.strip() for each in text.replace(",", " ").split()]
    if not subjects:
        raise ValueError("enter at least one subject, such as ORDERS.>")
    return subjects


def _needed(text: str) -> str:
    if not text:
        raise ValueError("enter a value")
    return text
