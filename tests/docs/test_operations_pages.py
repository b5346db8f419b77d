"""The guides of operators work as well; they have a module of their own so that workers share the guides."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import OPERATIONS, ROOT, follow
from java import require_java


@pytest.mark.parametrize("page", OPERATIONS)
def test_a_guide_of_operators_can_be_followed(tmp_path: Path, page: str) -> None:
    require_java()
    follow(ROOT / page, tmp_path)
