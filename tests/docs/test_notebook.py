"""The notebook of the examples runs from its first cell to its last, and is stored without outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "orders.ipynb"
_RUN = """
import ast, asyncio, inspect, json, sys
cells = json.load(open(sys.argv[1]))["cells"]
names = {}
async def run():
    for cell in cells:
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), cell["id"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                await waiting
asyncio.run(run())
"""
"""Runs the cells as Jupyter does, with `await` at the top level; Jupyter's own packages are 25."""


def notebook() -> Any:
    """Return the notebook as JSON."""
    return json.loads(NOTEBOOK.read_text())


def test_the_cells_run_in_order(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, str(NOTEBOOK)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("300 orders were read\n")


def test_jupyter_itself_runs_the_notebook_where_it_is_installed(tmp_path: Path) -> None:
    nbclient = pytest.importorskip(
        "nbclient", reason="Jupyter is not installed: pip install nbclient ipykernel"
    )
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="Jupyter is not installed: pip install nbclient ipykernel")
    ran = nbclient.NotebookClient(
        nbformat.read(NOTEBOOK, as_version=4), timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert ran.cells[-1].outputs[0].text == "300 orders were read\n"


def test_the_notebook_has_no_outputs_and_names_its_cells() -> None:
    cells = notebook()["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)
    assert len({cell["id"] for cell in cells}) == len(cells)
