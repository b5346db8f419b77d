"""How often a test that kills things does so, and the seed by which a run can be repeated.

`TEST_ROUNDS=60` makes it long (`make test-rounds`). `TEST_SEED` repeats a run. Without it `tests/conftest.py`
chooses one for the whole run and prints it.

A test that breaks each operation of a long history breaks some of them in one run, others in the next run,
and all of them when rounds are asked for.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

SEED_VARIABLE = "TEST_SEED"


def choose_seed() -> int:
    """Return the seed of this run; choose one if the environment names none.

    Child processes take the same.
    """
    return int(os.environ.setdefault(SEED_VARIABLE, str(random.SystemRandom().getrandbits(32))))


def rounds(usual: int) -> int:
    """Return how many rounds to run."""
    return int(os.environ.get("TEST_ROUNDS") or usual)


def some_operations(history: Sequence[str], purpose: str, after: int = 0, one_in: int = 10) -> list[int]:
    """Return the numbers, from 1, of the operations to break: one in `one_in`, and one of each kind at least.

    The first word of an operation is its kind. The seed of the run and the purpose decide which ones.
    """
    numbers = range(after + 1, len(history) + 1)
    if os.environ.get("TEST_ROUNDS"):
        return list(numbers)
    rng = random.Random(f"{choose_seed()} {purpose}")
    kinds: dict[str, list[int]] = {}
    for nth in numbers:
        kinds.setdefault(history[nth - 1].split()[0], []).append(nth)
    chosen = {rng.choice(of_a_kind) for of_a_kind in kinds.values()}
    return sorted(chosen | set(numbers[rng.randrange(one_in) :: one_in]))
