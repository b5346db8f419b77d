"""`headwater site stop|start|cut|heal` refuse what they cannot do; the rest is in tests/site."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetstreams import Shell
from topologies import cinemas, write_yaml


@pytest.fixture
def bare(tmp_path: Path) -> Shell:
    """Commands without a server."""
    return Shell("nats://127.0.0.1:1", tmp_path / "home")


@pytest.mark.parametrize("command", ["stop", "start", "cut", "heal"])
def test_sites_that_do_not_run_are_refused_and_nothing_is_written(
    bare: Shell, tmp_path: Path, command: str
) -> None:
    file = write_yaml(tmp_path / "sites.yaml", cinemas())
    ran = bare("site", command, str(file), "spoke-1")
    assert (ran.code, ran.out) == (1, "")
    assert "these sites do not run: start them with `headwater site up`" in ran.err
    assert not (tmp_path / ".headwater").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("stop", "there is no site nowhere: use hub, spoke-1, spoke-2"),
        ("heal", "there is no link nowhere: use spoke-1:hub, spoke-2:hub"),
    ],
)
def test_a_name_that_is_not_in_the_file_is_bad_usage(
    bare: Shell, tmp_path: Path, command: str, words: str
) -> None:
    file = write_yaml(tmp_path / "sites.yaml", cinemas())
    ran = bare("site", command, str(file), "nowhere")
    assert ran.code == 2
    assert words in ran.err
