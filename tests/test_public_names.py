"""The public names are there, typed, and imported only when they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from headwater.public_names import PLACES

PACKAGE = Path(headwater.__file__).parent
NAMES = {name for name in headwater.__all__ if not name.startswith("__")}


def test_every_public_name_can_be_used() -> None:
    for name in NAMES:
        assert getattr(headwater, name).__doc__, name
    assert set(PLACES) <= NAMES


def test_completion_shows_the_public_names_before_they_are_used() -> None:
    assert {name for name in dir(headwater) if not name.startswith("__")} == NAMES


def test_importing_all_names_brings_the_public_ones_only() -> None:
    namespace: dict[str, object] = {}
    exec("from headwater import *", namespace)
    assert set(namespace) - {"__builtins__"} == NAMES | {"__version__"}


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    shown = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert shown == NAMES


def test_importing_the_package_loads_neither_arrow_nor_spark() -> None:
    look = (
        "import headwater, sys; print([n for n in ('pyarrow', 'pyspark', 'deltalake') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(headwater, "nothing")  # noqa: B009
