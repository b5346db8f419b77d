"""The list of pages: every page has its template and its script, and every path is one page's."""

from __future__ import annotations

from headwater.console.console_pages import MENU, PAGES, ROUTES
from headwater.console.rendering import STATIC, environment


def test_every_page_has_a_template_and_a_script() -> None:
    for page in PAGES:
        assert environment().get_template(page.template)
        assert (STATIC / page.template.replace(".html", ".js")).is_file(), page.template


def test_paths_are_unique_and_the_menu_leads_to_pages() -> None:
    paths = [*(page.path for page in PAGES), *(route.path for route in ROUTES)]
    assert len(set(paths)) == len(paths)
    assert {entry.path for entry in MENU} <= set(paths)
