"""One page of the console: its path, its template, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.console.sampler import Sampler

Query = Mapping[str, str]
"""The parameters of the path and of the query together."""
View = Callable[[Sampler, Query], dict[str, Any]]
"""Returns what a page shows now, as JSON values. It never waits."""


@dataclass(frozen=True)
class ConsolePage:
    """A page that is kept current: `/live` + path sends its view whenever a site was read."""

    path: str
    """A path of Starlette, such as /streams/{site}/{stream}."""
    title: str
    template: str
    view: View
    in_menu: bool = True
    menu_order: int = 50
