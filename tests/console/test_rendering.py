"""Templates escape every value, in text and in attributes."""

from __future__ import annotations

from headwater.console.rendering import environment, segment


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
