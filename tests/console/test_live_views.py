"""A view is computed and encoded once for all browsers, and events lead from each view to the next."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from headwater.console import live_views
from headwater.console.live_views import LiveView, LiveViews


def said(event: bytes) -> tuple[str, Any]:
    """Return the kind and the value of an event."""
    kind, data, _, _ = event.decode().split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_browsers_share_a_view_until_a_site_is_read_again() -> None:
    views, computed = LiveViews(), []

    def compute() -> dict[str, Any]:
        computed.append(1)
        return {"count": len(computed)}

    first = views.of("/streams", 1, compute)
    assert views.of("/streams", 1, compute) is first
    second = views.of("/streams", 2, compute)
    assert second.view == {"count": 2}
    assert views.of("/consumers", 2, compute) is not second


def test_events_have_all_of_a_view_and_then_what_changed() -> None:
    one = LiveView({"rows": {"a": {"n": 1}, "b": {"n": 1, "name": "first\nsecond"}}}, 1)
    two = LiveView({"rows": {"a": {"n": 2}, "b": {"n": 1, "name": "first\nsecond"}}}, 2)
    assert said(one.whole()) == ("view", one.view)
    assert said(two.after(one)) == ("patch", {"rows": {"a": {"n": 2}}})
    assert two.after(one) is two.after(one)
    assert LiveView(dict(one.view), 3).after(one) == b""


def test_a_browser_that_missed_views_gets_all_that_changed() -> None:
    one, two, three = (LiveView({"n": number, "m": number // 3}, number) for number in (1, 2, 3))
    two.after(one)
    three.after(two)
    assert said(three.after(one)) == ("patch", {"n": 3, "m": 1})


def test_a_view_does_not_keep_all_earlier_ones() -> None:
    views = [LiveView({"n": number}, number) for number in range(4)]
    for before, after in pairwise(views):
        after.after(before)
    assert [view._before for view in views] == [None, None, None, views[2]]


def test_only_so_many_views_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr(live_views, "MOST_VIEWS", 2)
    views = LiveViews()
    first = views.of("a", 1, dict)
    views.of("b", 1, dict)
    assert views.of("a", 1, dict) is first
    views.of("c", 1, dict)
    assert views.of("a", 1, dict) is first
    assert set(views._views) == {"c", "a"}
