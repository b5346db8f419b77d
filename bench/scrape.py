"""What a scrape of the metrics costs an engine with many streams."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from bench.idle_streams import cpu_s, declare, engine_of
from bench.machine import describe
from bench.servers import Server, headwater, nats_server_program
from headwater.bus.free_port import free_port

KIB = 1024


def scrape(port: int) -> tuple[float, int]:
    """Scrape once; return the seconds that it took, and the size of the text."""
    began = time.perf_counter()
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read()
    assert text.endswith(b"# EOF\n")
    return time.perf_counter() - began, len(text)


def cost(server: Server, port: int, scrapes: int) -> tuple[float, float, int]:
    """Scrape several times; return CPU seconds, wall seconds and bytes of one scrape."""
    engine = engine_of(server)
    before, spent, size = cpu_s(engine), 0.0, 0
    for _ in range(scrapes):
        took_s, size = scrape(port)
        spent += took_s
    return (cpu_s(engine) - before) / scrapes, spent / scrapes, size


def main() -> None:
    """Measure scrapes of one engine as its streams grow in number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--scrapes", type=int, default=20)
    parser.add_argument("--settle", type=float, default=20.0, help="how long to wait before that")
    parser.add_argument(
        "--metrics-streams", type=int, default=1_000, help="streams that are shown one by one"
    )
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"{'streams':>9}{'CPU, ms':>10}{'wall, ms':>10}{'text, KiB':>11}{'share of a core at 15 s':>26}")
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    options = ("--http-port", str(port := free_port()), "--metrics-streams", str(arguments.metrics_streams))
    try:
        with headwater(directory, *options) as server:
            made = 0
            for streams in arguments.streams:
                declare(server, range(made, streams))
                made = streams
                time.sleep(arguments.settle)
                cpu, wall, size = cost(server, port, arguments.scrapes)
                print(
                    f"{streams:>9,}{cpu * 1e3:>10.1f}{wall * 1e3:>10.1f}{size / KIB:>11.0f}{cpu / 15:>26.2%}",
                    flush=True,
                )
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
