"""The leaf links of sites: which are up and since when, according to the servers' monitoring."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from headwater import private_file
from headwater.site.server_config import account_key
from headwater.site.topology import LOOPBACK, Node, Remote, Site, Topology

LINKS_NAME = "links.json"
_ASK_S = 3.0


class AccountLink(msgspec.Struct, frozen=True):
    """One link of one account, from the site that opens it to its target."""

    site: str
    to: str
    account: str
    is_up: bool
    since: float
    """Seconds since the epoch; zero if it was not checked yet."""
    is_cut: bool = False
    """Whether it was disabled with `site cut`."""


def links_of(topology: Topology) -> list[tuple[Site, Remote]]:
    """Return every link that the sites open."""
    return [(site, remote) for site in topology.sites for remote in site.remotes]


async def monitored(node: Node, page: str) -> dict[str, Any] | None:
    """Return a monitoring page of a server, or None if it does not answer."""
    return await asyncio.to_thread(_fetched, f"http://{LOOPBACK}:{node.monitor_port}/{page}")


def _fetched(url: str) -> dict[str, Any] | None:
    # A proxy set in the environment must not be used for a server on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_ASK_S) as answer:
            found = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return found if isinstance(found, dict) else None


async def connected_accounts(site: Site) -> dict[str, int]:
    """Return how many links the site's servers have opened for each account."""
    found: dict[str, int] = {}
    for node in site.nodes:
        page = await monitored(node, "leafz")
        for leaf in (page or {}).get("leafs") or ():
            # The spoke is the end that opened the link. Of the engine's own leaf, the server is the hub.
            if leaf.get("is_spoke"):
                found[leaf["account"]] = found.get(leaf["account"], 0) + 1
    return found


async def look(
    topology: Topology, before: Iterable[AccountLink] = (), now: float | None = None
) -> list[AccountLink]:
    """Return the status of all links; an unchanged link keeps its `since`."""
    moment = time.time() if now is None else now
    known = {(link.site, link.to, link.account): link for link in before}
    counts = {site.name: await connected_accounts(site) for site in topology.sites if site.remotes}
    found = []
    for site, remote in links_of(topology):
        to, account = remote.site or address_of(remote), remote.account
        opened = counts[site.name].get(_key(site, account), 0)
        is_up = opened >= _wanted(site, account) and not remote.is_cut
        old = known.get((site.name, to, account))
        since = old.since if old is not None and old.is_up == is_up else moment
        found.append(AccountLink(site.name, to, account, is_up, since, remote.is_cut))
    return found


async def has_wanted_links(site: Site) -> bool:
    """Return whether a site has opened its links, and none of those that are cut."""
    opened = await connected_accounts(site)
    accounts = {remote.account for remote in site.remotes}
    return all(opened.get(_key(site, account), 0) == _wanted(site, account) for account in accounts)


def address_of(remote: Remote) -> str:
    """Return the address of a link without its credentials."""
    return ",".join(url.rpartition("@")[2] for url in remote.url.split(","))


def _wanted(site: Site, account: str) -> int:
    """Return how many links of an account a site has when all are up: every node opens its own."""
    return sum(remote.account == account and not remote.is_cut for remote in site.remotes) * site.size


def _key(site: Site, account: str) -> str:
    found = site.account(account)
    return account_key(found) if found is not None else account


class LinkWatch:
    """Checks the links periodically, and records changes."""

    def __init__(self, topology: Topology, directory: Path) -> None:
        self.topology = topology
        self._path = directory / LINKS_NAME
        self.links: list[AccountLink] = read_links(directory)

    async def look(self) -> list[AccountLink]:
        """Return the current status of the links."""
        found = await look(self.topology, self.links)
        if found != self.links:
            self.links = found
            private_file.replace(self._path, msgspec.json.encode(found))
        return found


def read_links(directory: Path) -> list[AccountLink]:
    """Return the recorded status of the links."""
    try:
        return msgspec.json.decode((directory / LINKS_NAME).read_bytes(), type=list[AccountLink])
    except (OSError, msgspec.DecodeError):
        return []
