"""The guides of operators work as well; they have a module of their own so that workers share the guides."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from docs.pages import OPERATIONS, ROOT, RUNBOOKS, follow
from java import require_java


@pytest.mark.parametrize("page", OPERATIONS)
def test_a_guide_of_operators_can_be_followed(tmp_path: Path, page: str) -> None:
    require_java()
    follow(ROOT / page, tmp_path)


def test_the_runbooks_can_be_followed_with_a_store_of_an_older_release(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "tests" / "fixtures" / "store-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path / "lake", filter="data")
    follow(ROOT / RUNBOOKS, tmp_path)
