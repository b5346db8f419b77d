"""The health of a stream: thresholds over its info, as `nats server check stream` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from headwater.cli.stream.upstream_progress import extension, is_known
from headwater.errors import SettingsError
from headwater.model.times import SECOND, format_duration

Json = Mapping[str, Any]

METADATA_PREFIX = "io.nats.monitor."
OK, WARNING, CRITICAL, UNKNOWN = "OK", "WARNING", "CRITICAL", "UNKNOWN"
_DURATIONS = ("seen_critical", "peer_seen_critical", "behind_critical")
EXIT_CODES = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a check; 0 means not set. Durations are in nanoseconds."""

    lag_critical: int = 0
    seen_critical: int = 0
    behind_critical: int = 0
    gaps_critical: int = 0
    min_sources: int = 0
    max_sources: int = 0
    peer_expect: int = 0
    peer_lag_critical: int = 0
    peer_seen_critical: int = 0
    msgs_warn: int = 0
    msgs_critical: int = 0
    subjects_warn: int = 0
    subjects_critical: int = 0

    @classmethod
    def of(
        cls, given: Mapping[str, int | None], metadata: Mapping[str, str], duration: Callable[[str], int]
    ) -> Thresholds:
        """Return the thresholds in the stream's metadata, with the given ones taking precedence."""
        values: dict[str, int] = {}
        for threshold in fields(cls):
            key = METADATA_PREFIX + threshold.name.replace("_", "-")
            stated = given.get(threshold.name)
            if stated is not None:
                values[threshold.name] = stated
            elif key in metadata:
                convert = duration if threshold.name in _DURATIONS else int
                try:
                    values[threshold.name] = convert(metadata[key])
                except ValueError:
                    raise SettingsError(
                        f"{key} in the stream's metadata is invalid: {metadata[key]!r}"
                    ) from None
        return cls(**values)


class Figure(NamedTuple):
    """A measured value with its thresholds."""

    name: str
    value: float | None
    """None if it is unknown."""
    help: str
    warn: float = 0
    critical: float = 0
    unit: str = ""


@dataclass
class Health:
    """The findings about one stream or engine. The most severe one is its status."""

    name: str
    suite: str = "stream"
    """What was checked, as the formats name it."""
    oks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    criticals: list[str] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def status(self) -> str:
        """Return the status as Nagios names it."""
        if self.criticals:
            return CRITICAL
        if self.unknowns:
            return UNKNOWN
        return WARNING if self.warnings else OK

    @property
    def exit_code(self) -> int:
        """Return the exit code that Nagios defines for the status."""
        return EXIT_CODES[self.status]

    def say(self, trouble: bool, words: str, otherwise: str = "") -> None:
        """Record a critical finding, or the text to show otherwise."""
        if trouble:
            self.criticals.append(words)
        elif otherwise:
            self.oks.append(otherwise)


def judge(info: Json, limits: Thresholds) -> Health:
    """Return a stream's health."""
    health = Health(info["config"]["name"])
    if failure := extension(info).get("error"):
        health.criticals.append(f"cannot store messages: {failure}")
    _judge_peers(info, limits, health)
    _judge_messages(info["state"]["messages"], limits, health)
    _judge_subjects(info["state"].get("num_subjects", 0), limits, health)
    _judge_sources(info.get("sources") or [], limits, health)
    wanted = limits.lag_critical or limits.seen_critical or limits.behind_critical or limits.gaps_critical
    if not info.get("sources") and (info.get("mirror") or wanted):
        _judge_mirror(info.get("mirror"), limits, health)
    _judge_gaps([info["mirror"]] if info.get("mirror") else info.get("sources") or [], limits, health)
    return health


def _judge_peers(info: Json, limits: Thresholds, health: Health) -> None:
    cluster = info.get("cluster") or {}
    clustered = info["config"].get("num_replicas", 1) > 1 and bool(cluster)
    if not clustered:
        health.say(limits.peer_expect > 0, "Stream is not clustered")
        return
    if not cluster.get("leader"):
        health.say(True, "No leader")
        return
    replicas = cluster.get("replicas") or []
    peers = len(replicas) + 1
    if limits.peer_expect:
        wrong = peers != limits.peer_expect
        health.say(wrong, f"Expected {limits.peer_expect} replicas got {peers}", f"{peers} peers")
    offline = sum(bool(peer.get("offline")) for peer in replicas)
    health.say(offline > 0, f"{offline} replicas offline")
    if limits.peer_lag_critical:
        lagged = sum(peer.get("lag", 0) > limits.peer_lag_critical for peer in replicas)
        health.say(lagged > 0, f"{lagged} replicas lagged", "replicas are current")
    if limits.peer_seen_critical:
        silent = sum(not _seen(peer, limits.peer_seen_critical + 1) for peer in replicas)
        health.say(silent > 0, f"{silent} replicas inactive", "replicas are active")


def _judge_messages(count: int, limits: Thresholds, health: Health) -> None:
    """Report too few messages."""
    if not (limits.msgs_warn or limits.msgs_critical):
        return
    text = f"{count} messages"
    health.figures.append(
        Figure("messages", count, "Messages stored in the stream", limits.msgs_warn, limits.msgs_critical)
    )
    if limits.msgs_critical and count <= limits.msgs_critical:
        health.criticals.append(text)
    elif limits.msgs_warn and count <= limits.msgs_warn:
        health.warnings.append(text)
    else:
        health.oks.append(text)


def _judge_subjects(count: int, limits: Thresholds, health: Health) -> None:
    """Report too many subjects, or too few if the critical threshold is the smaller one."""
    warn, critical = limits.subjects_warn, limits.subjects_critical
    if not (warn or critical):
        return
    text = f"{count} subjects"
    health.figures.append(
        Figure("subjects", count, "Number of subjects stored in the stream", warn, critical)
    )
    many = not warn or warn < critical or not critical
    if critical and (count >= critical if many else count <= critical):
        health.criticals.append(text)
    elif warn and (count >= warn if many else count <= warn):
        health.warnings.append(text)
    else:
        health.oks.append(text)


def _judge_sources(sources: list[Json], limits: Thresholds, health: Health) -> None:
    count = len(sources)
    about = "Number of sources being consumed by this stream"
    health.figures.append(Figure("sources", count, about, limits.min_sources, limits.max_sources))
    few, many = count < limits.min_sources, bool(limits.max_sources) and count > limits.max_sources
    health.say(few or many, f"{count} sources", f"{count} sources")
    if sources:
        lags = [source.get("lag", 0) for source in sources if is_known(source)]
        total = sum(lags) if len(lags) == count else None
        health.figures.append(Figure("sources_lag", total, "Total lag of the sources in messages"))
    for source in sources:
        health.criticals.extend(_errors("Source", source))
        _judge_age("Source", source, limits.behind_critical, health)
        _check_contact("Source", source, limits.lag_critical, health)
    if not (limits.lag_critical or limits.seen_critical):
        return
    lagged = sum(_lags(source, limits.lag_critical) for source in sources)
    silent = sum(not _seen(source, limits.seen_critical) for source in sources)
    health.figures += [
        Figure("sources_lagged", lagged, "Sources that lag by more than the threshold"),
        Figure("sources_inactive", silent, "Sources that were not seen for longer than the threshold"),
    ]
    known = all(map(is_known, sources))
    health.say(lagged > 0, f"{lagged} sources are lagged", f"{count} sources current" if known else "")
    health.say(silent > 0, f"{silent} sources are inactive", f"{count} sources active")


def _judge_mirror(mirror: Json | None, limits: Thresholds, health: Health) -> None:
    if mirror is None:
        health.say(True, "not mirrored")
        return
    lag, active = mirror.get("lag", 0), mirror.get("active", -1)
    about = "Lag of the mirror in messages"
    seconds = active / SECOND if active >= 0 else None
    allowed = limits.seen_critical / SECOND
    health.figures += [
        Figure("lag", lag if is_known(mirror) else None, about, critical=limits.lag_critical),
        Figure("active", seconds, "Time since the origin was seen", critical=allowed, unit="s"),
    ]
    before = len(health.criticals)
    health.criticals.extend(_errors("Mirror", mirror))
    _judge_age("Mirror", mirror, limits.behind_critical, health)
    _check_contact("Mirror", mirror, limits.lag_critical, health)
    health.say(_lags(mirror, limits.lag_critical), f"Mirror Lag {lag}")
    seen = "never" if active < 0 else format_duration(active)
    health.say(not _seen(mirror, limits.seen_critical), f"Mirror Seen {seen}")
    health.say(False, "", f"Mirror {mirror.get('name', '')}" if len(health.criticals) == before else "")


def _judge_age(kind: str, upstream: Json, critical: int, health: Health) -> None:
    """Report an uncopied message that is too old. If the server does not report its age, that is unknown."""
    if not critical:
        return
    name, behind_s = upstream.get("name", ""), extension(upstream).get("behind")
    if behind_s is None:
        health.unknowns.append(f"{kind} {name}: the age of its oldest uncopied message is unknown")
        return
    behind = int(behind_s * SECOND)
    health.say(behind >= critical, f"{kind} {name}: {format_duration(behind)} behind")


def _check_contact(kind: str, upstream: Json, critical: int, health: Health) -> None:
    """Report an unknown lag as unknown rather than 0, unless an error explains it already."""
    if critical and not is_known(upstream) and not upstream.get("error"):
        health.unknowns.append(f"{kind} {upstream.get('name', '')}: its lag is unknown")


def _judge_gaps(upstreams: list[Json], limits: Thresholds, health: Health) -> None:
    """Report sequences that origins removed before they were copied."""
    if not any(map(extension, upstreams)):
        if limits.gaps_critical and upstreams:
            health.unknowns.append("the server does not report gaps")
        return
    lost = sum((extension(upstream).get("gaps") or {}).get("sequences", 0) for upstream in upstreams)
    about = "Sequences that origins removed before they were copied"
    health.figures.append(Figure("gaps", lost, about, critical=limits.gaps_critical))
    words = f"origins removed {lost} sequences before they were copied"
    if lost:
        health.say(bool(limits.gaps_critical) and lost >= limits.gaps_critical, words, words)


def _lags(upstream: Json, critical: int) -> bool:
    return bool(critical) and is_known(upstream) and upstream.get("lag", 0) >= critical


def _seen(peer: Json, critical: int) -> bool:
    """Return whether a peer was seen in time; false for one that was never seen."""
    return not critical or 0 <= peer.get("active", -1) < critical


def _errors(kind: str, upstream: Json) -> Iterator[str]:
    """Yield an upstream's error, which is critical whatever the thresholds are."""
    if error := upstream.get("error"):
        yield f"{kind} {upstream.get('name', '')}: {error.get('description')} ({error.get('err_code')})"
