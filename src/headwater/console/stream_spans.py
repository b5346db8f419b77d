"""How far back a page's plots go, as its query says."""

from __future__ import annotations

from headwater.console.console_page import Query

SPANS_S = {"10m": 600.0, "1h": 3600.0, "6h": 21600.0}


def span_of(query: Query) -> float:
    """Return the seconds that plots show: ten minutes unless the query names another span."""
    return SPANS_S.get(query.get("span", ""), SPANS_S["10m"])
