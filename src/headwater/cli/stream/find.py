"""`stream find`: the streams that match all given conditions, or none of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.expression import Expression
from headwater.cli.phrases import DURATION
from headwater.cli.session import Json
from headwater.cli.stream.streams import show_list, visible
from headwater.errors import SettingsError
from headwater.model.subject import collides
from headwater.model.times import parse_time

Condition = Callable[[Json], bool]


@dataclass(frozen=True)
class StreamCriteria:
    """The conditions on streams; None and empty values are ignored."""

    server_name: str = ""
    cluster: str = ""
    empty: bool = False
    idle: int = 0
    created: int = 0
    consumers: int | None = None
    subject: str = ""
    replicas: int = 0
    sourced: bool = False
    mirrored: bool = False
    leader: str = ""
    api_level: int = 0
    expression: str = ""


def conditions(wanted: StreamCriteria, now: int) -> list[Condition]:
    """Return one test for each condition."""
    tests: list[Condition] = []
    if wanted.server_name:
        server = _pattern(wanted.server_name, "--server-name")
        tests.append(lambda info: any(server.search(name) for name in _servers(info)))
    if wanted.cluster:
        cluster = _pattern(wanted.cluster, "--cluster")
        tests.append(lambda info: bool(cluster.search((info.get("cluster") or {}).get("name", ""))))
    if wanted.leader:
        leader = _pattern(wanted.leader, "--leader")
        tests.append(lambda info: bool(leader.search((info.get("cluster") or {}).get("leader", ""))))
    if wanted.empty:
        tests.append(lambda info: info["state"]["messages"] == 0)
    if wanted.idle:
        tests.append(lambda info: now - (_time(info["state"].get("last_ts")) or 0) > wanted.idle)
    if wanted.created:
        tests.append(lambda info: now - (_time(info.get("created")) or 0) > wanted.created)
    if wanted.consumers is not None:
        most = wanted.consumers
        tests.append(lambda info: info["state"].get("consumer_count", 0) < most)
    if wanted.subject:
        tests.append(lambda info: _takes(info, wanted.subject))
    if wanted.replicas:
        tests.append(lambda info: info["config"].get("num_replicas", 1) <= wanted.replicas)
    if wanted.sourced:
        tests.append(lambda info: bool(info["config"].get("sources")))
    if wanted.mirrored:
        tests.append(lambda info: bool(info["config"].get("mirror")))
    if wanted.api_level:
        tests.append(lambda info: _level(info) >= wanted.api_level)
    if wanted.expression:
        expression = Expression(wanted.expression)
        tests.append(
            lambda info: expression.holds({"config": info["config"], "state": info["state"], "info": info})
        )
    return tests


def matching(infos: list[Json], tests: list[Condition], *, invert: bool) -> list[Json]:
    """Return the streams that pass every test, or if inverted, fail every test."""
    return [info for info in infos if all(test(info) != invert for test in tests)]


@click.command()
@click.option("--server-name", default="", help="Streams on a server whose name matches this pattern.")
@click.option("--cluster", default="", help="Streams in a cluster whose name matches this pattern.")
@click.option("--empty", is_flag=True, help="Streams without messages.")
@click.option("--idle", type=DURATION, default=0, help="Streams without new messages for this long.")
@click.option("--created", type=DURATION, default=0, help="Streams created longer ago than this.")
@click.option("--consumers", type=click.IntRange(min=0), help="Streams with fewer consumers than this.")
@click.option("--subject", default="", help="Streams that listen on this subject; wildcards allowed.")
@click.option("--replicas", type=int, default=0, help="Streams with this many replicas or fewer.")
@click.option("--sourced", is_flag=True, help="Streams with sources.")
@click.option("--mirrored", is_flag=True, help="Mirrors.")
@click.option("--leader", default="", help="Streams whose leader's name matches this pattern.")
@click.option("--api-level", type=int, default=0, help="Streams that require at least this API level.")
@click.option(
    "--expression", default="", help="Streams for which this condition over config, state and info is true."
)
@click.option("-n", "--names", is_flag=True, help="Show only names.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include internal streams (KV_, OBJ_, MQTT).")
@click.option("--invert", is_flag=True, help="Invert the conditions.")
@client_command
def find(caller: Caller, names: bool, everything: bool, invert: bool, **wanted: object) -> None:
    """Find streams that match all given conditions.

    \b
    --expression can use every field of `stream info --json`:
      headwater stream find --expression 'state.messages > 10 and config.storage == "file"'
    """
    tests = conditions(StreamCriteria(**wanted), time.time_ns())  # type: ignore[arg-type]
    infos = visible(caller.run(lambda session: session.pages("STREAM.LIST", "streams")), everything)
    show_list(caller, matching(infos, tests, invert=invert), names)


def _pattern(text: str, flag: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingsError(f"{flag} is not a regular expression: {error}") from None


def _servers(info: Json) -> list[str]:
    cluster = info.get("cluster") or {}
    return [cluster.get("leader", ""), *(peer["name"] for peer in cluster.get("replicas") or ())]


def _takes(info: Json, subject: str) -> bool:
    return any(collides(own, subject) for own in info["config"].get("subjects") or ())


def _level(info: Json) -> int:
    text = (info["config"].get("metadata") or {}).get("_nats.req.level", "0")
    return int(text) if text.isdigit() else 0


def _time(text: str | None) -> int | None:
    return parse_time(text or "")
