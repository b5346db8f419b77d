"""The docs as a site: every page is in the navigation, every link works, no page loads from other hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs_site.build import ROOT, TEMPLATE, build, collect, config, linked_files, navigation, pages, render

_LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(https?:)?//([^/"'>]*)"""
)


def listed(entries: Any) -> list[str]:
    """Return the pages of a navigation, in order."""
    if isinstance(entries, str):
        return [entries]
    parts = entries.values() if isinstance(entries, dict) else entries
    return [page for part in parts for page in listed(part)]


def test_the_navigation_has_every_page_once() -> None:
    found = listed(navigation())
    assert sorted(found) == sorted(set(pages()) - {TEMPLATE})


def test_the_sections_are_those_of_the_list_of_pages() -> None:
    assert [next(iter(section)) for section in navigation()] == [
        "Home",
        "Guides",
        "Reference",
        "Internals",
        "Decisions",
    ]


def test_diagrams_are_pictures_that_need_no_script_of_another_host() -> None:
    assert [page for page in pages() if "```mermaid" in (ROOT / page).read_text()] == []
    assert "docs/diagrams/overview.svg" in linked_files("README.md")


def test_the_site_is_built_from_the_pages_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    site = build(tmp_path)
    made = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    wanted = {re.sub(r"README\.md$", "index.md", page).removesuffix(".md") + ".html" for page in pages()}
    assert wanted <= made
    assert (site / "docs" / "diagrams" / "overview.svg").exists()
    loaded = {match[0] for path in site.rglob("*.html") for match in _LOADED.finditer(path.read_text())}
    assert {tag for tag in loaded if "canonical" not in tag} == set()


@pytest.mark.parametrize("link", ["[x](gone.md)", "[x](#gone)", "[x](README.md#gone)"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "README.md").write_text(f"# Title\n\n{link}\n")
    settings = {**config(), "nav": [{"Home": "README.md"}], "extra_css": []}
    (tmp_path / "mkdocs.yml").write_text(json.dumps(settings))
    with pytest.raises(SystemExit, match="was not built"):
        render(tmp_path)


def test_pages_are_collected_afresh(tmp_path: Path) -> None:
    collect(tmp_path)
    (tmp_path / "pages" / "old.md").touch()
    collect(tmp_path)
    assert not (tmp_path / "pages" / "old.md").exists()
    assert (tmp_path / "pages" / "docs" / "guides" / "replicate.md").exists()
