"""A change of the catalog that the disk refused does not reappear after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.engine import shim
from simulation.engine.simulate import TESTS


def test_what_was_refused_is_not_there_after_a_kill(tmp_path: Path) -> None:
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
    cases = json.loads(ran.stdout)
    assert len(cases) == 20
    for case in cases:
        assert case["refused"], case
        assert case["after"] == case["before"], case
        assert case["after a kill"] == case["before"], case
