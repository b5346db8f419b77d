"""What is asked for is named as the file names it, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.site.outages import (
    OUTAGES_NAME,
    OutageNameError,
    Outages,
    cut,
    find_link,
    find_site,
    forget_outages,
    healed,
    read_outages,
    request,
    started,
    stopped,
    with_cuts,
)
from topologies import cinemas, topology_of


def test_sites_and_links_are_found_by_name_and_others_are_refused(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas())
    assert find_site(topology, "spoke-1") == "spoke-1"
    with pytest.raises(OutageNameError, match="no site spoke-3: use hub, spoke-1, spoke-2"):
        find_site(topology, "spoke-3")
    assert find_link(topology, "spoke-1") == "spoke-1:hub"
    assert find_link(topology, "spoke-2:hub") == "spoke-2:hub"
    with pytest.raises(OutageNameError, match="no link hub: use spoke-1:hub, spoke-2:hub"):
        find_link(topology, "hub")


def test_a_site_with_links_to_two_places_needs_the_full_name(tmp_path: Path) -> None:
    value = cinemas()
    value["sites"]["spoke-2"]["remotes"].append({"site": "spoke-1", "account": "ACC", "user": "acc"})
    topology = topology_of(tmp_path, value)
    with pytest.raises(OutageNameError, match="several links: use spoke-2:hub, spoke-2:spoke-1"):
        find_link(topology, "spoke-2")
    assert find_link(topology, "spoke-2:spoke-1") == "spoke-2:spoke-1"


def test_sites_without_links_have_none_to_cut(tmp_path: Path) -> None:
    value = cinemas()
    topology = topology_of(tmp_path, {**value, "sites": {"hub": value["sites"]["hub"]}})
    with pytest.raises(OutageNameError, match="no links"):
        find_link(topology, "hub")


def test_a_cut_holds_for_the_links_of_all_accounts_and_of_no_other_site(tmp_path: Path) -> None:
    topology = with_cuts(topology_of(tmp_path, cinemas()), ("spoke-1:hub",))
    found = {site.name: [remote.is_cut for remote in site.remotes] for site in topology.sites}
    assert found == {"hub": [], "spoke-1": [True, True], "spoke-2": [False, False]}
    again = with_cuts(topology, ())
    assert not any(remote.is_cut for site in again.sites for remote in site.remotes)


def test_each_request_changes_one_thing_and_has_a_number(tmp_path: Path) -> None:
    assert read_outages(tmp_path) == Outages()
    assert request(tmp_path, lambda now: stopped(now, "a")) == 1
    assert request(tmp_path, lambda now: cut(now, "b:a")) == 2
    assert request(tmp_path, lambda now: stopped(now, "a")) == 3
    assert read_outages(tmp_path) == Outages(3, ("a",), ("b:a",))
    request(tmp_path, lambda now: started(now, "a"))
    request(tmp_path, lambda now: healed(now, "b:a"))
    assert read_outages(tmp_path) == Outages(5)
    forget_outages(tmp_path)
    forget_outages(tmp_path)
    assert read_outages(tmp_path) == Outages()


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"stopped": 7}'])
def test_a_damaged_file_asks_for_nothing(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / OUTAGES_NAME).write_bytes(damaged)
    assert read_outages(tmp_path) == Outages()
