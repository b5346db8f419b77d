"""The commands that the README and the guides print work, from an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import BUCKET, OPERATIONS, PAGES, ROOT, RUNBOOKS, blocks, follow, unexplained
from java import require_java
from seaweed import SeaweedServer


@pytest.mark.parametrize("page", [page for page in PAGES if page not in (BUCKET, RUNBOOKS, *OPERATIONS)])
def test_a_page_can_be_followed(tmp_path: Path, page: str) -> None:
    require_java()
    follow(ROOT / page, tmp_path)


def test_the_page_about_buckets_can_be_followed_with_a_real_s3_server(
    tmp_path: Path, seaweed_server: SeaweedServer
) -> None:
    seaweed_server.new_bucket("my-lake")
    follow(ROOT / BUCKET, tmp_path, seaweed_server.environment)


def test_no_page_with_blocks_to_run_is_left_out() -> None:
    pages = [
        ROOT / "README.md",
        *sorted((ROOT / "docs" / "guides").glob("*.md")),
        *sorted((ROOT / "examples").rglob("README.md")),
    ]
    runnable = {str(page.relative_to(ROOT)) for page in pages if blocks(page)}
    assert runnable == set(PAGES)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=lambda page: page.name)
def test_every_block_with_commands_is_run_or_says_why_not(page: Path) -> None:
    assert unexplained(page) == []


def test_a_block_that_is_not_run_must_say_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```text\nheadwater a\n```\n\n<!-- not run: too dear -->\n```text\nheadwater b\n```\n")
    assert unexplained(page) == ["headwater a\n"]
