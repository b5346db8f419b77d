"""A change of the catalog that the disk refused does not reappear after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from simulation.engine import shim
from simulation.engine.simulate import TESTS


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return what catalogs contained after refused changes."""
    tmp_path = tmp_path_factory.mktemp("refused")
    if why := shim.why_not():
        pytest.skip(why)
    paths = os.pathsep.join([str(TESTS), *(path for path in sys.path if path)])
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.engine.refused_commit", str(tmp_path / "cases")],
        env={**shim.environment(shim.build(tmp_path)), "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    outcome: dict[str, list[dict[str, Any]]] = json.loads(ran.stdout)
    return outcome


def test_what_was_refused_is_not_there_after_a_kill(found: dict[str, list[dict[str, Any]]]) -> None:
    assert len(found["cases"]) == 20
    for case in found["cases"]:
        assert case["refused"], case
        assert case["after"] == case["before"], case
        assert case["after a kill"] == case["before"], case


def test_a_power_cut_after_a_refused_change_and_a_kill_costs_no_later_change(
    found: dict[str, list[dict[str, Any]]],
) -> None:
    assert found["cuts"]
    for case in found["cuts"]:
        assert any(row.startswith("later ") for row in case["promised"]), case
        assert case["found"] == case["promised"], case
