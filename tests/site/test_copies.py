"""A stream has no more replicas than its site keeps; what is lowered is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.journal.opened_head import CATALOG
from headwater.site.copies import (
    copies_at,
    lowered,
    on_hosts,
    replicas_of,
    require_copies,
    with_older_stores,
)
from headwater.site.site_file import resized
from headwater.site.topology import Topology
from topologies import ACCOUNTS, topology_of


def topology(directory: Path, replicas: int = 3, **said: Any) -> Topology:
    """Return a site with one stream, and another that its engine serves too."""
    stream = {"name": "S", "subjects": ["s"], "num_replicas": replicas}
    sites = {"hub": {**said, "streams": [stream]}, "edge": {"engine": "hub", "streams": [stream]}}
    return topology_of(directory, {"accounts": ACCOUNTS, "sites": sites})


@pytest.mark.parametrize("said", [{"nodes": 3}, {"journal": "nats://a,b,c"}, {"max_replicas": 3}])
def test_what_the_journal_keeps_is_accepted(tmp_path: Path, said: dict[str, Any]) -> None:
    found = topology(tmp_path, **said)
    require_copies(found)
    assert [copies_at(found, site) for site in found.sites] == [3, 3]


@pytest.mark.parametrize("said", [{}, {"nodes": 3, "journal": "none"}, {"journal": "s3://lake/j"}])
def test_more_is_refused_with_its_line_and_a_remedy(tmp_path: Path, said: dict[str, Any]) -> None:
    with pytest.raises(
        SettingsError,
        match=r"sites\.yaml:\d+: stream 'S' has num_replicas 3, and hub keeps one copy: set nodes: 3",
    ):
        require_copies(topology(tmp_path, **said))
    with pytest.raises(SettingsError, match="num_replicas 5, and hub keeps 3 copies"):
        require_copies(topology(tmp_path, 5, nodes=3))


def test_fewer_nodes_on_request_keep_fewer_copies_and_say_so(tmp_path: Path) -> None:
    small = lowered(resized(topology(tmp_path, nodes=3, journal="cluster"), 1), "--nodes is 1")
    require_copies(small)
    assert [replicas_of(stream) for site in small.sites for stream in site.streams] == [1, 1]
    assert small.warnings == (
        "hub keeps one copy of S, which declares 3: --nodes is 1",
        "edge keeps one copy of S, which declares 3: --nodes is 1",
    )
    assert lowered(topology(tmp_path, nodes=3), "").warnings == ()


def test_a_store_of_an_earlier_release_continues_without_a_journal(tmp_path: Path) -> None:
    found = topology(tmp_path, nodes=3)
    assert with_older_stores(found, tmp_path) == found
    (tmp_path / "hub" / "store").mkdir(parents=True)
    (tmp_path / "hub" / "store" / CATALOG).touch()
    older = with_older_stores(found, tmp_path)
    assert not older.site("hub").has_journal
    require_copies(older)
    assert "its store was written without a journal" in older.warnings[0]
    named = topology(tmp_path, nodes=3, journal="cluster")
    assert with_older_stores(named, tmp_path) == named, (
        "the engine refuses it, as the file asks for a journal"
    )


def test_hosts_get_a_journal_only_with_tables_in_a_bucket(tmp_path: Path) -> None:
    named = topology(tmp_path, nodes=3, tables="s3://lake/tables")
    assert on_hosts(named) == named
    bare = on_hosts(topology(tmp_path, nodes=3))
    assert not bare.site("hub").has_journal
    assert "name tables in a bucket" in bare.warnings[0]
    with pytest.raises(SettingsError, match="tables of hub is missing"):
        on_hosts(topology(tmp_path, nodes=3, journal="cluster"))
