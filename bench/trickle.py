"""What replication costs when little happens: how late a message is, and what idle upstreams cost."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from statistics import median, quantiles

import psutil

from bench.copies import Api, copy
from bench.generator import Connection
from bench.servers import Site

RATE = 100
LOOK_S = 0.0025
_ORIGINS = 50
_SETTLE_S = 5.0


def warm(site: Site) -> None:
    """Return once Headwater's replicator runs and has copied something."""
    api = Api(Connection(site.hub.port), "$JS.lake.API")
    filled = api.fill("WARM", "warm", 4096, 1024)
    for kind in ({"mirror": {"name": "WARM"}}, {"sources": [{"name": "WARM"}]}):
        copy(api, "WARMED", filled, kind)
        api.delete("WARMED")
    api.delete("WARM")


def latencies(site: Site, seconds: float) -> dict[str, dict[str, float]]:
    """Print and return how long after its acknowledgement a message is in a mirror, at 100 per second."""
    print(
        f"\nfrom the acknowledgement at the origin until a mirror's state shows it, {RATE} messages a second"
    )
    found = {}
    for name, prefix in (("nats-server", "$JS.hub.API"), ("headwater", "$JS.lake.API")):
        waits = _latencies(Api(Connection(site.hub.port), prefix), site.hub.port, seconds)
        found[name] = {
            "median": round(median(waits) * 1e3, 1),
            "p99": round(quantiles(waits, n=100)[98] * 1e3, 1),
        }
        print(
            f"{name:<14} median {found[name]['median']:.1f} ms, p99 {found[name]['p99']:.1f} ms", flush=True
        )
    return found


def _latencies(api: Api, port: int, seconds: float) -> list[float]:
    """Return for each message the seconds between its acknowledgement and its being seen in the mirror."""
    subject = f"trickle.{api.prefix.split('.')[1]}"
    api.create("TRICKLE", subjects=[f"{subject}.>"])
    api.create("TRICKLED", mirror={"name": "TRICKLE"})
    acked: list[float] = []
    seen: list[tuple[int, float]] = []
    done = threading.Event()

    def watch() -> None:
        watching = Api(Connection(port, b"_INBOX.watcher"), api.prefix)
        while not (done.is_set() and seen and seen[-1][0] >= len(acked)):
            seen.append((watching.state("TRICKLED")["last_seq"], time.perf_counter()))
            time.sleep(LOOK_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    client = Connection(port, b"_INBOX.trickle")
    began = time.perf_counter()
    for number in range(int(seconds * RATE)):
        time.sleep(max(began + number / RATE - time.perf_counter(), 0))
        answer = client.request(f"{subject}.x", {"number": number})
        assert answer.get("seq") == number + 1, answer
        acked.append(time.perf_counter())
    done.set()
    watcher.join()
    api.delete("TRICKLED")
    api.delete("TRICKLE")
    return [seen[bisect_left(seen, (seq, 0.0))][1] - at for seq, at in enumerate(acked, start=1)]


def idle(site: Site, upstreams: int) -> dict[str, float]:
    """Print and return the CPU seconds per second that idle upstreams use."""
    api = Api(Connection(site.hub.port), "$JS.lake.API")
    engine = psutil.Process(site.lake.process.pid)
    names = [f"IDLE{number}" for number in range(_ORIGINS)]
    for name in names:
        api.create(name, subjects=[f"idle.{name}"])
    before = _cpu(engine)
    targets = [f"SINK{number}" for number in range(upstreams // _ORIGINS)]
    for target in targets:
        api.create(target, sources=[{"name": name} for name in names])
    time.sleep(_SETTLE_S)
    found = _cpu(engine)
    for what, cpu in ((f"{upstreams} idle upstreams", found), ("none", before)):
        print(f"{what}: engine {cpu['engine']:.3f}, replicator {cpu['replicator']:.3f} CPU seconds a second")
    for name in (*targets, *names):
        api.delete(name)
    return {f"{name}_cpu": round(value, 4) for name, value in found.items()}


def _cpu(engine: psutil.Process, seconds: float = 10.0) -> dict[str, float]:
    """Return the CPU seconds per second of the engine and all its child processes."""

    def used() -> dict[str, float]:
        children = sum(sum(child.cpu_times()[:2]) for child in engine.children(recursive=True))
        return {"engine": sum(engine.cpu_times()[:2]), "replicator": children}

    first, began = used(), time.perf_counter()
    time.sleep(seconds)
    last, took = used(), time.perf_counter() - began
    return {name: (last[name] - first[name]) / took for name in first}
