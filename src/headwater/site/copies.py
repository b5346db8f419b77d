"""How many copies of a stream a site keeps: what is declared must be true, or is refused at the start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headwater.errors import SettingsError
from headwater.journal.opened_head import CATALOG, read_mark
from headwater.site.topology import NO_JOURNAL, DeclaredStream, Site, Topology

REMEDY = "set nodes: 3, name a journal that keeps more, or lower num_replicas"


def copies_at(topology: Topology, site: Site) -> int:
    """Return the largest num_replicas of a stream at a site: what the journal of its engine keeps."""
    return topology.site(site.engine).copies


def require_copies(topology: Topology) -> None:
    """Refuse streams that declare more replicas than their site keeps."""
    for site in topology.sites:
        kept = copies_at(topology, site)
        for stream in site.streams:
            if replicas_of(stream) > kept:
                raise SettingsError(
                    f"{stream.place}: stream {stream.name!r} has num_replicas {replicas_of(stream)}, and "
                    f"{site.name} keeps {_copies(kept)}: {REMEDY}"
                )


def lowered(topology: Topology, why: str) -> Topology:
    """Return the sites with no more replicas than they keep, and a warning for each stream that has fewer."""
    sites, warnings = [], list(topology.warnings)
    for site in topology.sites:
        kept = copies_at(topology, site)
        streams = []
        for stream in site.streams:
            if replicas_of(stream) > kept:
                warnings.append(
                    f"{site.name} keeps {_copies(kept)} of {stream.name}, which declares "
                    f"{replicas_of(stream)}: {why}"
                )
                stream = replace(stream, config={**stream.config, "num_replicas": kept})
            streams.append(stream)
        sites.append(replace(site, streams=tuple(streams)))
    return replace(topology, sites=tuple(sites), warnings=tuple(warnings))


def with_older_stores(topology: Topology, directory: Path) -> Topology:
    """Return the sites with those left without a journal whose store was written without one.

    This is for files that do not name a journal: their stores of earlier releases continue where they are.
    """
    for site in topology.sites:
        store = directory / site.name / "store"
        if _has_older_store(site, store):
            why = f"its store was written without a journal; move {store} away for one"
            topology = lowered(_without_journal(topology, site.name), why)
    return topology


def on_hosts(topology: Topology) -> Topology:
    """Return the sites for real hosts, where an engine with a journal needs its tables in a bucket.

    A file that names neither gets no journal, as in earlier releases.
    """
    for site in topology.sites:
        if not site.has_journal or site.store.tables:
            continue
        if site.store.journal:
            raise SettingsError(
                f"tables of {site.name} is missing: engines on several hosts need them in a bucket, such as "
                "tables: s3://BUCKET/PREFIX"
            )
        why = "name tables in a bucket, which engines on several hosts need for a journal"
        topology = lowered(_without_journal(topology, site.name), why)
    return topology


def _without_journal(topology: Topology, name: str) -> Topology:
    site = topology.site(name)
    without = replace(site, store=replace(site.store, journal=NO_JOURNAL))
    return replace(topology, sites=tuple(without if each is site else each for each in topology.sites))


def _has_older_store(site: Site, store: Path) -> bool:
    is_usual = site.has_journal_servers and not site.store.journal
    return is_usual and (store / CATALOG).exists() and read_mark(store) is None


def replicas_of(stream: DeclaredStream) -> int:
    """Return how many replicas a stream declares."""
    return max(int(stream.config.get("num_replicas") or 1), 1)


def _copies(count: int) -> str:
    return "one copy" if count == 1 else f"{count} copies"
