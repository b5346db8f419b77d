"""`consumer find`: the consumers of a stream that match all given conditions, or none of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.consumer.info import list_sheet
from headwater.cli.expression import Expression
from headwater.cli.phrases import DURATION
from headwater.cli.render import show, show_json
from headwater.cli.session import Json
from headwater.cli.stream.find import matching
from headwater.cli.stream.streams import chosen
from headwater.errors import SettingsError
from headwater.model.times import parse_time

Condition = Callable[[Json], bool]


@dataclass(frozen=True)
class ConsumerCriteria:
    """The conditions on consumers; None and empty values are ignored."""

    pull: bool = False
    push: bool = False
    bound: bool = False
    pinned: bool = False
    waiting: int | None = None
    ack_pending: int | None = None
    pending: int | None = None
    idle: int = 0
    created: int = 0
    replicas: int = 0
    leader: str = ""
    api_level: int = 0
    expression: str = ""


def conditions(wanted: ConsumerCriteria, now: int) -> list[Condition]:
    """Return one test for each condition."""
    tests: list[Condition] = []
    if wanted.pull:
        tests.append(lambda info: not info["config"].get("deliver_subject"))
    if wanted.push:
        tests.append(lambda info: bool(info["config"].get("deliver_subject")))
    if wanted.bound:
        tests.append(lambda info: bool(info.get("push_bound") or info.get("num_waiting")))
    if wanted.pinned:
        tests.append(_is_pinned)
    for key, most in (
        ("num_waiting", wanted.waiting),
        ("num_ack_pending", wanted.ack_pending),
        ("num_pending", wanted.pending),
    ):
        if most is not None:
            tests.append(lambda info, key=key, most=most: info.get(key, 0) < most)  # type: ignore[misc]
    if wanted.idle:
        tests.append(lambda info: now - _last_delivered(info) > wanted.idle)
    if wanted.created:
        tests.append(lambda info: now - (parse_time(info.get("created") or "") or 0) > wanted.created)
    if wanted.replicas:
        tests.append(lambda info: (info["config"].get("num_replicas") or 1) <= wanted.replicas)
    if wanted.leader:
        leader = _pattern(wanted.leader)
        tests.append(lambda info: bool(leader.search((info.get("cluster") or {}).get("leader", ""))))
    if wanted.api_level:
        tests.append(lambda info: _level(info) >= wanted.api_level)
    if wanted.expression:
        expression = Expression(wanted.expression)
        tests.append(lambda info: expression.holds({"config": info["config"], "state": info, "info": info}))
    return tests


@click.command()
@click.argument("stream", required=False)
@click.option("--pull", is_flag=True, help="Pull consumers.")
@click.option("--push", is_flag=True, help="Push consumers.")
@click.option("--bound", is_flag=True, help="Consumers in use: bound, or with waiting pulls.")
@click.option("--pinned", is_flag=True, help="Consumers with a pinned client in every priority group.")
@click.option("--waiting", type=click.IntRange(min=0), help="Consumers with fewer waiting pulls than this.")
@click.option(
    "--ack-pending",
    type=click.IntRange(min=0),
    help="Consumers with fewer unacknowledged messages than this.",
)
@click.option(
    "--pending", type=click.IntRange(min=0), help="Consumers with fewer undelivered messages than this."
)
@click.option("--idle", type=DURATION, default=0, help="Consumers without a delivery for this long.")
@click.option("--created", type=DURATION, default=0, help="Consumers created longer ago than this.")
@click.option("--replicas", type=int, default=0, help="Consumers with this many replicas or fewer.")
@click.option("--leader", default="", help="Consumers whose leader's name matches this pattern.")
@click.option("--api-level", type=int, default=0, help="Consumers that require at least this API level.")
@click.option(
    "--expression", default="", help="Consumers for which this condition over config, state and info is true."
)
@click.option("-n", "--names", is_flag=True, help="Show only names.")
@click.option("--invert", is_flag=True, help="Invert the conditions.")
@client_command
def find(caller: Caller, stream: str | None, names: bool, invert: bool, **wanted: object) -> None:
    """Find consumers of a stream that match all given conditions."""
    tests = conditions(ConsumerCriteria(**wanted), time.time_ns())  # type: ignore[arg-type]
    which = chosen(caller, stream)
    infos = caller.run(lambda session: session.pages(f"CONSUMER.LIST.{which}", "consumers"))
    found = matching(infos, tests, invert=invert)
    if caller.as_json:
        show_json([info["name"] for info in found] if names else found)
    elif names:
        click.echo("".join(f"{info['name']}\n" for info in found), nl=False)
    elif found:
        show(list_sheet(found))
    else:
        click.echo("No Consumers found")


def _is_pinned(info: Json) -> bool:
    groups = info.get("priority_groups") or ()
    return bool(groups) and all(group.get("pinned_client_id") for group in groups)


def _last_delivered(info: Json) -> int:
    return parse_time((info.get("delivered") or {}).get("last_active") or "") or 0


def _level(info: Json) -> int:
    text = (info["config"].get("metadata") or {}).get("_nats.req.level", "0")
    return int(text) if text.isdigit() else 0


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingsError(f"--leader is not a regular expression: {error}") from None
