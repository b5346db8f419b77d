"""The strip of sites that every page shows: which answers, what it is, how much it stores."""

from __future__ import annotations

from typing import Any

from headwater.console.sampler import Sampler


def site_states(sampler: Sampler) -> dict[str, Any]:
    """Return for each site whether it answers."""
    return {
        name: {
            "error": site.snapshot.error,
            "known": site.snapshot.at_s > 0,
            "server": site.snapshot.server,
            "engine": site.snapshot.is_engine,
            "streams": len(site.snapshot.streams),
            "rate": round(sum(site.rates.values()), 1),
        }
        for name, site in sampler.sites.items()
    }
