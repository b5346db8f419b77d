"""Many runs, one after the other, in one process on the shim.

python -m simulation.engine.simulate --seeds 1,2,3
python -m simulation.engine.simulate --runs 1000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simulation.engine import shim

TESTS = Path(__file__).parent.parent.parent
LINE = 12
MOST_SEEDS = 1 << 31
Outcome = dict[str, Any]


def chosen(count: int) -> list[int]:
    """Return this many random seeds."""
    chance = random.SystemRandom()
    return [chance.randrange(1, MOST_SEEDS) for _ in range(count)]


def outcomes(
    seeds: Iterable[int], *arguments: str, most_s: float = 0.0, **variables: str
) -> Iterator[Outcome]:
    """Yield the outcome of each run; with `most_s` none is begun after so many seconds."""
    built = shim.build(Path(tempfile.gettempdir()))
    paths = os.pathsep.join([str(TESTS), *(path for path in sys.path if path)])
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "simulation.engine.run", *arguments],
        env={**shim.environment(built), "PYTHONPATH": paths, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seed in seeds:
            if most_s and time.monotonic() - began > most_s:
                break
            process.stdin.write(f"{seed}".ljust(LINE - 1).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, "the process of the simulation is gone"
            yield json.loads(line)
        process.stdin.close()


def main() -> int:
    """Run seeds, print one line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="")
    parser.add_argument("--runs", type=int, default=1)
    options, others = parser.parse_known_args()
    seeds = [int(seed) for seed in options.seeds.split(",") if seed] or chosen(options.runs)
    failures = 0
    for outcome in outcomes(seeds, *others):
        failures += bool(outcome["problem"])
        print(json.dumps(outcome), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
