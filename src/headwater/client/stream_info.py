"""What a JetStream API reports about a stream and its upstreams, as typed frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from headwater.errors import Error
from headwater.model.progress import Phase
from headwater.model.times import SECOND, ZERO_TIME, parse_time
from headwater.wire.progress_json import EXTENSION

Json = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class UpstreamGap:
    """A range of the origin's sequences that was removed before it could be copied, both ends included."""

    first_seq: int
    last_seq: int
    time: datetime | None
    """When the gap was recorded."""
    reason: str
    """`retention`, `purge`, or that the origin was re-created."""

    @property
    def sequences(self) -> int:
        """Return the number of sequences in the gap."""
        return self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamInfo:
    """The status of one source or mirror of a stream.

    None means unknown: the origin was never seen, or the server does not report the value. A plain
    nats-server reports only the name, the lag, the error, and when the origin was last seen.
    """

    name: str
    """The origin's stream."""
    is_mirror: bool
    api_prefix: str
    """The API prefix of a remote origin, empty for an origin in the same account and domain."""
    lag: int | None
    """Messages at the origin that are not copied yet; None while that is unknown, never 0 for unknown."""
    last_known_lag: int
    """The last lag that was known, 0 if none ever was."""
    silent_s: float | None
    """Seconds since the last contact with the origin; None if it was never seen."""
    last_seen: datetime | None
    error: str | None
    """Why nothing is copied."""
    error_code: int | None
    """The `err_code` of that error."""
    waiting: str | None = None
    """What it waits for before anything is copied, for example that Spark starts; None if for nothing."""
    phase: Phase | None = None
    seq: int | None = None
    """The origin's sequence up to which all matching messages were copied."""
    origin_last_seq: int | None = None
    done: float | None = None
    """The completed fraction of the current catch-up, from 0 to 1."""
    behind_s: float | None = None
    """The age of the oldest message that is not copied yet."""
    caught_up_in_s: float | None = None
    """Estimated seconds until it has caught up."""
    messages_per_s: float | None = None
    bytes_per_s: float | None = None
    gap_count: int | None = None
    gap_sequences: int | None = None
    """The number of sequences in all gaps."""
    gaps: tuple[UpstreamGap, ...] = ()
    """The last 32 gaps."""
    restarts: int | None = None
    """How often a source started again because its origin was re-created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """The configuration, the state and the upstreams of one stream."""

    name: str
    subjects: tuple[str, ...]
    storage: str
    retention: str
    created: datetime | None
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_time: datetime | None
    last_time: datetime | None
    consumers: int
    error: str | None
    """Why the stream cannot store messages, for example a full disk; None if it can, or if a plain
    nats-server answered."""
    upstreams: tuple[UpstreamInfo, ...]
    """Its mirror, or its sources in the order of the configuration."""
    config: Mapping[str, Any]
    """The whole configuration with the field names of JetStream. Treat it as read-only."""

    @property
    def lag(self) -> int | None:
        """Return the lag of all upstreams; None if one of them is unknown."""
        lags = [upstream.lag for upstream in self.upstreams]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


def stream_info(info: Json, now: datetime | None = None) -> StreamInfo:
    """Return the value of a STREAM.INFO reply that arrived now; `Error` if it is none."""
    try:
        return _stream_info(info, now)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Error(f"the answer is not a stream's info, {type(error).__name__}: {error}") from error


def _stream_info(info: Json, now: datetime | None) -> StreamInfo:
    config, state = info["config"], info["state"]
    return StreamInfo(
        name=str(config["name"]),
        subjects=tuple(config.get("subjects") or ()),
        storage=str(config.get("storage", "")),
        retention=str(config.get("retention", "")),
        created=_time(info.get("created")),
        messages=int(state.get("messages", 0)),
        bytes=int(state.get("bytes", 0)),
        first_seq=int(state.get("first_seq", 0)),
        last_seq=int(state.get("last_seq", 0)),
        first_time=_time(state.get("first_ts")),
        last_time=_time(state.get("last_ts")),
        consumers=int(state.get("consumer_count", 0)),
        error=(info.get(EXTENSION) or {}).get("error") or None,
        upstreams=upstream_infos(info, now),
        config=MappingProxyType(dict(config)),
    )


def upstream_infos(info: Json, now: datetime | None = None) -> tuple[UpstreamInfo, ...]:
    """Return the mirror, or the sources, of a STREAM.INFO reply that arrived now."""
    now = now or datetime.now(UTC)
    if mirror := info.get("mirror"):
        return (_upstream(mirror, now, is_mirror=True),)
    return tuple(_upstream(source, now, is_mirror=False) for source in info.get("sources") or ())


def _upstream(upstream: Json, now: datetime, *, is_mirror: bool) -> UpstreamInfo:
    error, progress = upstream.get("error") or {}, upstream.get(EXTENSION)
    active = int(upstream.get("active") or -1)
    silent_s = active / SECOND if active > 0 else None
    last_known_lag = int(upstream.get("lag") or 0)
    is_known = silent_s is not None and ("done" in progress if progress else not error)
    return UpstreamInfo(
        name=str(upstream["name"]),
        is_mirror=is_mirror,
        api_prefix=str((upstream.get("external") or {}).get("api") or ""),
        lag=last_known_lag if is_known else None,
        last_known_lag=last_known_lag,
        silent_s=silent_s,
        last_seen=None if silent_s is None else now - timedelta(seconds=silent_s),
        error=str(error.get("description") or "unknown error") if error else None,
        error_code=int(error.get("err_code") or 0) if error else None,
        **(_progress(progress) if progress else {}),
    )


def _progress(progress: Json) -> dict[str, Any]:
    """Return the fields that only an engine reports."""
    rate, gaps = progress.get("rate") or {}, progress.get("gaps") or {}
    return {
        "waiting": progress.get("waiting") or None,
        "phase": _phase(progress.get("phase")),
        "seq": progress.get("seq"),
        "origin_last_seq": progress.get("origin_last_seq"),
        "done": progress.get("done"),
        "behind_s": progress.get("behind"),
        "caught_up_in_s": progress.get("caught_up_in"),
        "messages_per_s": rate.get("msgs"),
        "bytes_per_s": rate.get("bytes"),
        "gap_count": int(gaps.get("count", 0)),
        "gap_sequences": int(gaps.get("sequences", 0)),
        "gaps": tuple(_gap(gap) for gap in gaps.get("recent") or ()),
        "restarts": int((progress.get("restarts") or {}).get("count", 0)),
    }


def _phase(text: Any) -> Phase | None:
    """Return the phase, None for one that only a newer engine knows."""
    try:
        return Phase(text)
    except ValueError:
        return None


def _gap(gap: Json) -> UpstreamGap:
    return UpstreamGap(
        int(gap["first_seq"]), int(gap["last_seq"]), _time(gap.get("time")), str(gap["reason"])
    )


def _time(text: Any) -> datetime | None:
    """Return a time in UTC; None where there is none."""
    if not text or text == ZERO_TIME:
        return None
    ns = parse_time(str(text))
    return None if ns is None else _EPOCH + timedelta(microseconds=ns // 1000)
