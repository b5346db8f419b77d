"""The progress of an upstream as JSON, in an object next to nats-server's own fields."""

from __future__ import annotations

from typing import Any

from headwater.model.gaps import Gaps
from headwater.model.progress import Progress
from headwater.model.times import format_time

Json = dict[str, Any]

EXTENSION = "headwater"
"""The only key that nats-server does not have; strict clients refuse it, so it must be requested."""
REQUESTED_BY = "Headwater-Progress"
"""The header, with any value, with which a request asks for it."""


def progress_json(progress: Progress) -> Json:
    """Return the extension object, without unknown values."""
    shown: Json = {
        "phase": progress.phase.value,
        "seq": progress.seq,
        "rate": {"msgs": round(progress.msgs_per_s, 2), "bytes": round(progress.bytes_per_s, 2)},
        "copied": {"msgs": progress.copied_msgs, "bytes": progress.copied_bytes},
    }
    if progress.seen_ns:
        shown["origin_last_seq"] = progress.origin_last_seq
    for name, figure, digits in (
        ("done", progress.done, 4),
        ("behind", progress.behind_s, 3),
        ("caught_up_in", progress.caught_up_in_s, 3),
    ):
        if figure is not None:
            shown[name] = round(figure, digits)
    for name, ns in (
        ("last_commit", progress.committed_ns),
        ("last_contact", progress.seen_ns),
        ("failing_since", progress.failing_ns),
        ("next_attempt", progress.next_try_ns),
    ):
        if ns:
            shown[name] = format_time(ns)
    if progress.waiting:
        shown["waiting"] = progress.waiting
    if progress.failures:
        shown["failures"] = progress.failures
    if progress.is_piped:
        shown["pipeline"] = {"dead_letters": progress.dead_letters}
    return shown | _gaps_json(progress.gaps)


def _gaps_json(gaps: Gaps) -> Json:
    shown: Json = {}
    if gaps.count:
        recent = [
            {
                "first_seq": gap.first_seq,
                "last_seq": gap.last_seq,
                "time": format_time(gap.noted_ns),
                "reason": gap.reason,
            }
            for gap in gaps.recent
        ]
        shown["gaps"] = {"count": gaps.count, "sequences": gaps.sequences, "recent": recent}
    if gaps.restarts:
        shown["restarts"] = {"count": gaps.restarts, "time": format_time(gaps.restarted_ns)}
    return shown
