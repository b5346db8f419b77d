"""Run the script by hand: `python -m conformance show|compare|page`, from the folder of the tests."""

import argparse
import asyncio
import json
import tempfile
import time
from functools import partial
from pathlib import Path

import conformance.scenarios  # noqa: F401  (fills SCENARIOS)
from conformance import javascript
from conformance.difference import Difference
from conformance.known import PAGE, explained, rendered
from conformance.scenario import SCENARIOS, Scenario
from conformance.server import SERVERS, Server
from conformance.verdict import judged


def chosen(part: str) -> list[Scenario]:
    """Return the scenarios whose name holds the given part."""
    return [scenario for name, scenario in SCENARIOS.items() if part in name]


async def show(server: Server, part: str) -> None:
    """Print what one server answers."""
    for scenario in chosen(part):
        print(f"\n# {scenario.name}")
        for answer in await scenario.record(server):
            print(f"\n{answer.request}\n  {answer.label}\n  {json.dumps(answer.value)}")


async def differences(first: Server, second: Server, part: str, times: bool) -> list[Difference]:
    """Return every difference that shows twice between two servers, the scenarios one after the other."""
    found: list[Difference] = []
    for scenario in chosen(part):
        started = time.monotonic()
        verdict = await judged(scenario.name, partial(scenario.on_both, first, second))
        if times:
            print(f"{time.monotonic() - started:6.2f} s  {scenario.name}")
        found += verdict.found
    scripts = [] if javascript.missing() else [one for one in javascript.SCRIPTS if part in f"js.{one}"]
    for script in scripts:
        javascript.install()
        found += (await judged(f"js.{script}", partial(javascript.on_both, script, first, second))).found
    return found


def report(found: list[Difference], everything: bool) -> None:
    """Print differences, the known ones only when asked for."""
    shown = [one for one in found if everything or not explained(one)]
    for one in shown:
        print(f"\n## {one.scenario}: {one.label}\n\n    {one.request}\n")
        print(
            f"- field: `{one.path or '(whole)'}`\n- nats-server: `{one.expected!r}`\n- here: `{one.actual!r}`"
        )
    print(f"\n{len(found)} differences, {len(found) - len(shown)} of them known and not shown")


def arguments() -> argparse.Namespace:
    """Return the command line, parsed."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    showing = commands.add_parser("show", help="print what one server answers")
    showing.add_argument("--server", choices=SERVERS, default="nats-server")
    comparing = commands.add_parser("compare", help="print how a server differs from nats-server")
    comparing.add_argument("--server", choices=SERVERS, default="headwater")
    comparing.add_argument("--all", action="store_true", help="show the known differences too")
    comparing.add_argument("--times", action="store_true", help="print how long each scenario took")
    for command in (showing, comparing):
        command.add_argument("-k", default="", dest="part", help="only scenarios whose name holds this")
    commands.add_parser("page", help="write docs/reference/differences.md from the known differences")
    return parser.parse_args()


def main() -> None:
    """Start the servers that the command names, run, stop them."""
    given = arguments()
    if given.command == "page":
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(rendered())
        return
    with tempfile.TemporaryDirectory() as directory:
        server = SERVERS[given.server](Path(directory) / "second")
        reference = SERVERS["nats-server"](Path(directory) / "first")
        try:
            server.start()
            if given.command == "show":
                asyncio.run(show(server, given.part))
            else:
                reference.start()
                report(asyncio.run(differences(reference, server, given.part, given.times)), given.all)
        finally:
            server.stop()
            reference.stop()


if __name__ == "__main__":
    main()
