"""What holds for every test: random examples with a printed seed, and no assertion that fails unseen.

`pytest --hypothesis-seed=N` repeats a run's generated examples. `--hypothesis-profile same` takes the
same ones in every run.
"""

from __future__ import annotations

import atexit
import gc
import os
import random
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import spark_archive
import swallowed as swallowed_assertions
import workers
from azurite import AzuriteServer, azurite, missing
from costs import VARIABLE as COSTS
from costs import Costs
from forks import Forks
from journal_cluster import JournalCluster, journal_cluster
from rounds import SEED_VARIABLE, choose_seed
from seaweed import SeaweedServer, seaweed

_PATIENT = [HealthCheck.too_slow]
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("random", deadline=None, suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("random")

_SEED = "--hypothesis-seed"
_swallowed = swallowed_assertions.Swallowed()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the suite ask for parallel workers."""
    parser.addoption("--workers", type=int, default=0, help="run modules in so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of generated examples here, so that it can be printed; workers take the same."""
    # A shell's background job ignores Ctrl-C, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if workers_wanted := config.getoption("--workers"):
        config.pluginmanager.register(Forks(workers_wanted, spark_archive.begin(os.environ)))
    else:
        spark_archive.use(os.environ)
    if os.environ.get(COSTS):
        config.pluginmanager.register(Costs(Path(os.environ[COSTS]).absolute()))
    if config.getoption(_SEED) is None and config.getoption("--hypothesis-profile") is None:
        setattr(config.option, _SEED.strip("-").replace("-", "_"), str(random.SystemRandom().getrandbits(32)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    workers.arrange(items, config.rootpath / "tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of garbage collections: thousands of tests live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # DuckDB complains about objects that the end of the process leaves.
        atexit.register(gc.unfreeze)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    return f"to repeat this run: {SEED_VARIABLE}={choose_seed()} pytest {_SEED}={config.getoption(_SEED)}"


@pytest.fixture(scope="session", autouse=True)
def _record_swallowed_assertions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        swallowed_assertions.install(patch, _swallowed)
        yield


@pytest.fixture(autouse=True)
def _no_swallowed_assertions() -> Iterator[None]:
    """Fail a test if an assertion failed in a callback or in a task that was never awaited."""
    yield
    found = _swallowed.take()
    assert not found, "\n".join(["assertions failed where nothing awaited them:", *found])


@pytest.fixture(scope="module")
def seaweed_server() -> Iterator[SeaweedServer]:
    """Run one S3 server for all tests of a module; each takes a bucket of its own."""
    with seaweed() as server:
        yield server


@pytest.fixture(scope="module")
def azurite_server() -> Iterator[AzuriteServer]:
    """Run one object store of Azure's kind for all tests of a module; each takes a container of its own."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with azurite() as server:
        yield server


@pytest.fixture(scope="module")
def journal_servers() -> Iterator[JournalCluster]:
    """Run one cluster of three nats-servers for all tests of a module; each takes a journal of its own."""
    with journal_cluster() as cluster:
        yield cluster
