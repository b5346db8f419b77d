"""Outages on request: stopped sites and cut links, in a file that the supervisor reads."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from headwater import private_file
from headwater.errors import SettingsError
from headwater.site.links import address_of, links_of
from headwater.site.topology import Remote, Site, Topology

OUTAGES_NAME = "outages.json"
_LOCK_NAME = "outages.lock"


class OutageNameError(SettingsError):
    """The name of a site or a link that the file does not have."""


class Outages(msgspec.Struct, frozen=True):
    """The sites that are stopped and the links that are cut."""

    number: int = 0
    """Counts the requests, so that who asks knows when the supervisor has met one."""
    stopped: tuple[str, ...] = ()
    """Names of sites."""
    cut: tuple[str, ...] = ()
    """Names of links."""


def link_name(site: Site, remote: Remote) -> str:
    """Return the name of the links between two places, of all accounts."""
    return f"{site.name}:{remote.site or address_of(remote)}"


def with_cuts(topology: Topology, cut: tuple[str, ...]) -> Topology:
    """Return the sites with exactly these links cut."""
    return replace(topology, sites=tuple(_cut(site, cut) for site in topology.sites))


def _cut(site: Site, cut: tuple[str, ...]) -> Site:
    remotes = tuple(replace(remote, is_cut=link_name(site, remote) in cut) for remote in site.remotes)
    return replace(site, remotes=remotes)


def find_site(topology: Topology, name: str) -> str:
    """Return the name of a site of the file; refuse another one."""
    names = [site.name for site in topology.sites]
    if name not in names:
        raise OutageNameError(f"there is no site {name}: use {', '.join(names)}")
    return name


def find_link(topology: Topology, name: str) -> str:
    """Return the full name of a link: `SITE:TARGET`, or SITE alone if it has links to one target."""
    names = sorted({link_name(site, remote) for site, remote in links_of(topology)})
    if not names:
        raise OutageNameError("these sites have no links")
    found = [each for each in names if name in (each, each.partition(":")[0])]
    if not found:
        raise OutageNameError(f"there is no link {name}: use {', '.join(names)}")
    if len(found) > 1:
        raise OutageNameError(f"{name} has several links: use {', '.join(found)}")
    return found[0]


def read_outages(directory: Path) -> Outages:
    """Return the outages that are asked for; a file that cannot be read asks for none."""
    try:
        return msgspec.json.decode((directory / OUTAGES_NAME).read_bytes(), type=Outages)
    except (OSError, msgspec.DecodeError):
        return Outages()


def request(directory: Path, change: Callable[[Outages], Outages]) -> int:
    """Change what is asked for; return the number of this request."""
    with (directory / _LOCK_NAME).open("a") as lock:
        # Two commands at the same time must not undo each other.
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_outages(directory)
        after = msgspec.structs.replace(change(before), number=before.number + 1)
        private_file.replace(directory / OUTAGES_NAME, msgspec.json.encode(after))
    return after.number


def stopped(outages: Outages, site: str) -> Outages:
    """Return the outages with this site stopped, too."""
    return msgspec.structs.replace(outages, stopped=_with(outages.stopped, site))


def started(outages: Outages, site: str) -> Outages:
    """Return the outages without this site."""
    return msgspec.structs.replace(outages, stopped=_without(outages.stopped, site))


def cut(outages: Outages, link: str) -> Outages:
    """Return the outages with this link cut, too."""
    return msgspec.structs.replace(outages, cut=_with(outages.cut, link))


def healed(outages: Outages, link: str) -> Outages:
    """Return the outages without this link."""
    return msgspec.structs.replace(outages, cut=_without(outages.cut, link))


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return (*_without(names, name), name)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def forget_outages(directory: Path) -> None:
    """Forget all outages: a start of sites starts all of them."""
    (directory / OUTAGES_NAME).unlink(missing_ok=True)
