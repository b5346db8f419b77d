"""Servers that all tests of the command line share; each test uses its own stream names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from jetstreams import KINDS, Shell, jetstream

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _no_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not limit the width of piped output, also if the environment sets a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def _nats_server_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with jetstream("nats-server", tmp_path_factory.mktemp("jetstream")) as running:
        yield running


@pytest.fixture(scope="session")
def _headwater_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with jetstream("headwater", tmp_path_factory.mktemp("jetstream")) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def shell(request: pytest.FixtureRequest) -> Shell:
    """Commands against a plain nats-server, then against a Headwater engine; both run until the last test."""
    found: Shell = request.getfixturevalue(f"_{request.param.replace('-', '_')}_shell")
    return found


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses, for a stream and (in lower case) its subjects."""
    return f"S{next(_numbers)}"


@pytest.fixture
def stream(shell: Shell, name: str) -> str:
    """Return the name of a stream with three messages on `<name>.a`, `.b` and `.c`."""
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults")
    for token in "abc":
        shell.ok("pub", f"{name}.{token}", f"message {token}", "--jetstream", "--quiet")
    return name
