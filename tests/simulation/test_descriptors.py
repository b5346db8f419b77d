"""The shim breaks files of the store and nothing else, and records every change of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.engine import shim
from simulation.engine.simulate import TESTS


def test_only_files_of_the_store_break_and_all_their_changes_are_recorded(tmp_path: Path) -> None:
    if why := shim.why_not():
        pytest.skip(why)
    paths = os.pathsep.join([str(TESTS), *(path for path in sys.path if path)])
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.engine.descriptors", str(tmp_path)],
        env={**shim.environment(shim.build(tmp_path)), "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    assert json.loads(ran.stdout) == {
        "closed_by_scandir": "written",
        "closed_by_range": "written",
        "truncated": "refused once",
        "left": "0123",
    }
