"""How often a test that kills things does so, and the seed by which a run can be repeated.

`TEST_ROUNDS=60` makes it long (`make test-rounds`). `TEST_SEED` repeats a run. Without it `tests/conftest.py`
chooses one for the whole run and prints it.
"""

from __future__ import annotations

import os
import random

SEED_VARIABLE = "TEST_SEED"


def choose_seed() -> int:
    """Return the seed of this run; choose one if the environment names none.

    Child processes take the same.
    """
    return int(os.environ.setdefault(SEED_VARIABLE, str(random.SystemRandom().getrandbits(32))))


def rounds(usual: int) -> int:
    """Return how many rounds to run."""
    return int(os.environ.get("TEST_ROUNDS") or usual)
