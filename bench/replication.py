"""Sources and mirrors: Headwater's compared with nats-server's own, on the same data and the same machine."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import servers, trickle
from bench.bucket import bucket_options
from bench.comparison import RESULTS
from bench.copies import KEPT, Api, Copied, audit_mirror, audit_sourced, copy, write
from bench.generator import Connection
from bench.machine import describe

PARTS = 4
FOUR, REMOTE = "four sources", "mirror of nats-server"
HUB = {"api": "$JS.hub.API", "deliver": ""}
SIZES = ((128, 10_000_000), (1024, 1_000_000))
AS_ADDED: Mapping[str, Any] = {"duplicate_window": 120_000_000_000}
"""What `nats stream add` puts into a config by default, and the API alone does not."""
NOTHING_MORE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Case:
    """One kind of copy, done by each server; the first is nats-server's."""

    name: str
    runs: dict[str, Copied]


class Bench:
    """The servers, and their streams with messages of one size."""

    def __init__(self, site: servers.Site, size: int, messages: int) -> None:
        self._size = size
        hub, spoke = Connection(site.hub.port), Connection(site.spoke.port, b"_INBOX.spoke")
        self._apis = {
            "hub": Api(hub, "$JS.hub.API"),
            "lake": Api(hub, "$JS.lake.API"),
            "spoke": Api(spoke, "$JS.spoke.API"),
        }
        self._messages = messages
        self._filled = 0
        self._parts = 0

    def fill(self, *, parts: int) -> None:
        """Fill the origins, one server after the other, and as many streams with a part of the messages."""
        for domain in ("hub", "lake"):
            api = self._apis[domain]
            self._filled = api.fill("ORIGIN", f"{domain}.origin", self._messages, self._size)
            for number in range(parts):
                subject = f"{domain}.part{number}"
                self._parts = api.fill(f"PART{number}", subject, self._messages // PARTS, self._size)

    def empty(self, *, parts: int) -> None:
        """Delete the origins."""
        for domain in ("hub", "lake"):
            for name in ("ORIGIN", *(f"PART{number}" for number in range(parts))):
                self._apis[domain].delete(name)

    def cases(self, rounds: int, wanted: Collection[str]) -> Iterator[Case]:
        """Yield each case once it was run."""
        both: dict[str, Callable[[str], Copied]] = {
            "default source": self._default_source,
            "mirror": self._mirror,
            "source": self._source,
            "transformed source": self._transformed,
            "filtered source": self._filtered,
            FOUR: self._four,
        }
        for name, run in both.items():
            if not wanted or name in wanted:
                yield Case(name, {domain: _best(partial(run, domain), rounds) for domain in ("hub", "lake")})
        if not wanted or REMOTE in wanted:
            yield Case(
                REMOTE,
                {
                    "hub": _best(partial(self._mirror, "hub"), rounds),
                    "spoke": _best(partial(self._mirror, "spoke", HUB), rounds),
                    "lake": _best(partial(self._mirror, "lake", HUB), rounds),
                },
            )

    def _mirror(self, domain: str, external: dict[str, str] | None = None) -> Copied:
        api = self._apis[domain]
        origin = self._apis["hub"] if external else api
        mirror = {"name": "ORIGIN"} | ({"external": external} if external else {})
        done = copy(api, "COPY", self._filled, {"mirror": mirror})
        audit_mirror(origin, "ORIGIN", api, "COPY")
        api.delete("COPY")
        return done

    def _source(self, domain: str) -> Copied:
        return self._sourced(domain, [{"name": "ORIGIN"}], self._filled)

    def _default_source(self, domain: str) -> Copied:
        return self._sourced(domain, [{"name": "ORIGIN"}], self._filled, extra=AS_ADDED)

    def _transformed(self, domain: str) -> Copied:
        src, dest = f"{domain}.origin.", f"{domain}.copied."
        source = {"name": "ORIGIN", "subject_transforms": [{"src": f"{src}>", "dest": f"{dest}>"}]}
        return self._sourced(domain, [source], self._filled, renamed=lambda each: each.replace(src, dest))

    def _filtered(self, domain: str) -> Copied:
        source = {"name": "ORIGIN", "filter_subject": f"{domain}.origin.1.>"}
        return self._sourced(domain, [source], round(self._filled * KEPT), self._filled)

    def _four(self, domain: str) -> Copied:
        sources = [{"name": f"PART{number}"} for number in range(PARTS)]
        return self._sourced(domain, sources, self._parts * PARTS)

    def _sourced(
        self,
        domain: str,
        sources: list[dict[str, Any]],
        expected: int,
        scanned: int = 0,
        renamed: Callable[[str], str] = lambda subject: subject,
        extra: Mapping[str, Any] = NOTHING_MORE,
    ) -> Copied:
        api = self._apis[domain]
        done = copy(api, "COPY", expected, {"sources": sources, **extra}, scanned)
        audit_sourced({source["name"]: api for source in sources}, api, "COPY", expected, renamed)
        api.delete("COPY")
        return done


def _best(run: Callable[[], Copied], rounds: int) -> Copied:
    """Return the fastest round, of either server: other load only makes a round slower."""
    return min((run() for _ in range(rounds)), key=lambda done: done.seconds)


def main() -> None:
    """Run every case for every size, then the trickle and the idle upstreams."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full numbers of messages")
    parser.add_argument("--sizes", type=int, nargs="*", default=[size for size, _ in SIZES])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--case", nargs="*", default=[], help="only the cases of these names")
    parser.add_argument("--skip", nargs="*", default=[], choices=["copies", "latency", "idle"])
    parser.add_argument(
        "--bucket", action="store_true", help="Headwater's tables in a SeaweedFS on this machine"
    )
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the messages, and short measures")
    arguments = parser.parse_args()
    scale = 0.02 if arguments.quick else arguments.scale
    machine = describe(servers.nats_server_program())
    print(machine)
    figures: dict[str, Any] = {"machine": machine}
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-"))
        options = stack.enter_context(bucket_options()) if arguments.bucket else ()
        site = stack.enter_context(servers.site(Path(name), *options))
        trickle.warm(site)
        for size, messages in SIZES:
            if size in arguments.sizes and "copies" not in arguments.skip:
                figures |= _copies(site, size, int(messages * scale), arguments.rounds, arguments.case)
        if "latency" not in arguments.skip:
            figures["latency_ms"] = trickle.latencies(site, 3.0 if arguments.quick else 20.0)
        if "idle" not in arguments.skip:
            figures["idle"] = trickle.idle(site, 100 if arguments.quick else 1000)
    write(RESULTS / ("replication-bucket.json" if arguments.bucket else "replication.json"), figures)


def _copies(
    site: servers.Site, size: int, messages: int, rounds: int, wanted: Collection[str]
) -> dict[str, Any]:
    bench = Bench(site, size, messages)
    parts = PARTS if not wanted or FOUR in wanted else 0
    bench.fill(parts=parts)
    print(f"\n{messages:,} messages of {size} B, from creating the target until its state shows everything")
    print(f"{'':<24}{'nats-server':>12}{'headwater':>12}{'ratio':>8}   seconds")
    figures = {}
    for case in bench.cases(rounds, wanted):
        hub, lake = case.runs["hub"], case.runs["lake"]
        spoke = case.runs.get("spoke")
        extra = f", {spoke.seconds:.2f} from another domain ({lake.rate / spoke.rate:.2f}x)" if spoke else ""
        print(
            f"{case.name:<24}{hub.rate:>12,.0f}{lake.rate:>12,.0f}{lake.rate / hub.rate:>7.1f}x"
            f"   {hub.seconds:.2f} and {lake.seconds:.2f}{extra}",
            flush=True,
        )
        figures[f"{case.name}, {size} B"] = {domain: round(run.rate) for domain, run in case.runs.items()}
    bench.empty(parts=parts)
    return figures


if __name__ == "__main__":
    main()
