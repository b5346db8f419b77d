"""The views of pages, computed once for each read of a site and shared by all browsers that show them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.console.merge_patch import merge_patch

MOST_VIEWS = 100
"""So many pages are remembered; others are computed again for each browser."""


class LiveView:
    """What a page shows at one time, with the events that show it; each event is encoded once."""

    def __init__(self, view: dict[str, Any], version: int) -> None:
        self.view = view
        self.version = version
        self._whole = b""
        self._before: LiveView | None = None
        """The view that the last patch started from; None before the first one."""
        self._patch = b""
        """The event that leads from `_before` to this view."""

    def whole(self) -> bytes:
        """Return the event with all of the view."""
        self._whole = self._whole or _event("view", self.view)
        return self._whole

    def after(self, before: LiveView) -> bytes:
        """Return the event with what changed since an earlier view; empty if nothing did."""
        if self._before is not before:
            patch = merge_patch(before.view, self.view)
            self._before, self._patch = before, _event("patch", patch) if patch else b""
            before._before = None  # else each view would keep all that came before it
        return self._patch


class LiveViews:
    """The last view of each page that is open in a browser."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, LiveView] = OrderedDict()
        """By the address of the page, the one that was asked for last at the end."""

    def of(self, address: str, version: int, compute: Callable[[], dict[str, Any]]) -> LiveView:
        """Return the view of a page at a version of the sampler; it is computed for the first who asks."""
        known = self._views.get(address)
        if known is None or known.version != version:
            known = self._views[address] = LiveView(compute(), version)
        self._views.move_to_end(address)
        while len(self._views) > MOST_VIEWS:
            self._views.popitem(last=False)
        return known


def _event(kind: str, value: dict[str, Any]) -> bytes:
    """Return a server-sent event; JSON has no line break outside of escapes."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(value))
