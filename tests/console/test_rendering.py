"""Templates escape every value, in text and in attributes."""

from __future__ import annotations

import re

import pytest

from headwater.console.rendering import STATIC, environment, segment


def test_every_template_escapes() -> None:
    loaded = environment()
    assert loaded.autoescape is True
    made = loaded.from_string('<a href="/{{ name | segment }}" title="{{ name }}">{{ name }}</a>')
    hostile = '"><script>alert(1)</script>/..'
    shown = made.render(name=hostile)
    assert "<script>" not in shown
    assert shown.count('"') == 4


def test_a_segment_cannot_leave_its_place_in_a_path() -> None:
    assert segment("a/b?c#d") == "a%2Fb%3Fc%23d"


PAIRS = (
    *(
        (text, back)
        for text in ("text", "soft", "link", "good", "busy", "bad", "unknown")
        for back in ("back", "card")
    ),
    *((level, f"{level}-back") for level in ("good", "busy", "bad", "unknown")),
    *(("on-accent", back) for back in ("accent", "bad")),
    *((text, "tint") for text in ("text", "link", "soft")),
)
"""Each colour of text with each colour that is behind it somewhere."""


TEMPLATES = STATIC.parent / "templates"


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as #1b2733, as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", range(3), ids=["light", "dark", "dark by the system"])
def test_text_has_the_contrast_that_wcag_aa_demands(palette: int) -> None:
    style = (STATIC / "console.css").read_text()
    blocks = re.findall(r"\{([^{}]*--back:[^{}]*)\}", style)
    assert len(blocks) == 3
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[palette]))
    for text, back in PAIRS:
        darker, lighter = sorted((luminance(colours[text]), luminance(colours[back])))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, back)


def test_what_scrolls_can_be_reached_with_the_keyboard() -> None:
    found = [tag for path in TEMPLATES.glob("*.html") for tag in re.findall(r"<pre[^>]*>", path.read_text())]
    assert found
    assert [tag for tag in found if 'tabindex="0"' not in tag] == []
