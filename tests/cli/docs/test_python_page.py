"""The reference page of the Python package has every public name, from its docstring."""

from __future__ import annotations

from pathlib import Path

import headwater
from headwater.cli.docs.python_page import GROUPS, python_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python.md"


def test_the_page_is_the_one_that_the_docstrings_write() -> None:
    assert PAGE.read_text() == python_page(), "run `make docs-pages`"


def test_every_public_name_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    public = [name for name in headwater.__all__ if not name.startswith("__")]
    assert sorted(grouped) == sorted(public)


def test_functions_classes_fields_and_methods_are_shown() -> None:
    page = python_page()
    assert "headwater.serve(store: str | Path, **options: Any) -> LocalEngine" in page
    assert "headwater.Lake(store: str | Path)" in page
    assert "| `lag` | `int \\| None` | Messages at the origin that are not copied yet;" in page
    assert "| `STALLED` | `'stalled'` |" in page
    assert "#### AsyncClient.catch_up()" in page
    assert "async catch_up(" in page


def test_no_line_is_without_a_docstring() -> None:
    parts = python_page().split("\n```\n")[1:]
    assert [part for part in parts if not part.strip() or part.strip().startswith("#")] == []
