"""CPU time of writing 100,000 samples of metrics, with and without a library (decision 0057).

Run: python -m bench.exposition
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest

from headwater.monitor.exposition import Exposition, labels

STREAMS = 10_000
FAMILIES = 10
ROUNDS = 3
NAMES = [f"STREAM_{number}" for number in range(STREAMS)]


class Collector:
    """Collects a number of every stream for each family, as an exporter with this library does."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families."""
        for number in range(FAMILIES):
            family = GaugeMetricFamily(f"number_{number}", "A number.", labels=["account", "stream"])
            for value, name in enumerate(NAMES):
                family.add_metric(["$G", name], value)
            yield family


def by_library() -> bytes:
    """Write the samples with prometheus_client."""
    registry = CollectorRegistry()
    registry.register(Collector())
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def by_hand() -> bytes:
    """Write the samples as the engine does: the labels of a stream are formatted once."""
    shown = [labels(account="$G", stream=name) for name in NAMES]
    page = Exposition()
    for number in range(FAMILIES):
        page.gauge(f"number_{number}", "A number.", [(each, value) for value, each in enumerate(shown)])
    return page.text()


def best_s(action: Callable[[], object]) -> float:
    """Return the CPU time of the best round."""
    times = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        action()
        times.append(time.thread_time() - began)
    return min(times)


def main() -> None:
    """Print what each way takes."""
    assert by_library().count(b"\nnumber_") == by_hand().count(b"\nnumber_") == STREAMS * FAMILIES
    for name, action in (("prometheus_client", by_library), ("headwater.monitor.exposition", by_hand)):
        print(f"{name:30} {best_s(action):6.3f} s for {STREAMS * FAMILIES:,} samples")


if __name__ == "__main__":
    main()
