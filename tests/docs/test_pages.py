"""What the README and the guides tell a reader to type works, from an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import Reader, blocks
from java import require_java

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "README.md": "ARCHIVE",
    "docs/guides/replicate.md": "BACKUP",
    "docs/guides/query.md": "orders.eu",
    "docs/guides/python.md": "BACKUP holds 3 messages; it is live and has 0 gaps",
    "docs/guides/migrate.md": "orders~eu",
}
"""Pages whose blocks are run, and a word that must be in what they print."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(tmp_path: Path, page: str) -> None:
    require_java()
    assert PAGES[page] in Reader(tmp_path).follow(ROOT / page)


def test_no_page_with_blocks_to_run_is_left_out() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    runnable = {str(page.relative_to(ROOT)) for page in pages if blocks(page)}
    assert runnable == set(PAGES)
