"""The health of a whole account: what of its streams is offline, failing, or copied with an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.cli.health import Figure, Health
from headwater.cli.stream.upstream_progress import extension, is_known
from headwater.model.counted import counted

Json = Mapping[str, Any]
ENGINE_SUITE = "engine"
MOST_NAMED = 5


def judge_engine(name: str, infos: Sequence[Json], offline: Mapping[str, str]) -> Health:
    """Return the health of the streams of an account, all that are listed and all that are offline."""
    health = Health(name, suite=ENGINE_SUITE)
    failing = {info["config"]["name"]: why for info in infos if (why := extension(info).get("error"))}
    upstreams = [(info["config"]["name"], each) for info in infos for each in _upstreams(info)]
    wrong = {
        f"{stream} from {each.get('name', '')}": each["error"].get("description", "")
        for stream, each in upstreams
        if each.get("error")
    }
    unseen = [f"{stream} from {each.get('name', '')}" for stream, each in upstreams if not is_known(each)]
    health.say(bool(offline), f"offline: {_named(offline)}", f"{counted(len(infos), 'stream')}")
    health.say(bool(failing), f"cannot be stored: {_named(failing)}")
    health.say(bool(wrong), f"not copied: {_named(wrong)}")
    lost = sum((extension(each).get("gaps") or {}).get("sequences", 0) for _, each in upstreams)
    health.figures += [
        Figure("streams", len(infos), "Streams that are served"),
        Figure("streams_offline", len(offline), "Streams that could not be opened"),
        Figure("streams_failing", len(failing), "Streams that cannot be stored"),
        Figure("upstreams", len(upstreams), "Sources and mirrors"),
        Figure("upstreams_failing", len(wrong), "Sources and mirrors with an error"),
        Figure("upstreams_unseen", len(unseen), "Sources and mirrors whose lag is unknown"),
        Figure("gaps", lost, "Sequences that origins removed before they were copied"),
    ]
    return health


def _upstreams(info: Json) -> list[Json]:
    return [*([info["mirror"]] if info.get("mirror") else []), *(info.get("sources") or [])]


def _named(reasons: Mapping[str, str]) -> str:
    """Return the first few names with their reasons, and how many more there are."""
    shown = [f"{name} ({why})" for name, why in sorted(reasons.items())[:MOST_NAMED]]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
