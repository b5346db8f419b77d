"""The site file: YAML parsed strictly into a topology, with every reference checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.errors import SettingsError
from headwater.site import helm
from headwater.site.account_entries import check_name, read_accounts, read_login
from headwater.site.document import Entry, listed, optional, read_document
from headwater.site.store_entries import STORE_KEYS, read_store
from headwater.site.stream_entries import read_streams
from headwater.site.topology import (
    CLIENT_PORT,
    CLUSTER,
    JOURNAL_ACCOUNT,
    LEAF_PORT,
    LOOPBACK,
    MONITOR_PORT,
    NO_JOURNAL,
    ROUTE_PORT,
    SITE_STRIDE,
    Account,
    Remote,
    Site,
    Tls,
    Topology,
)

_PORTS = {
    "port": CLIENT_PORT,
    "route_port": ROUTE_PORT,
    "leaf_port": LEAF_PORT,
    "monitor_port": MONITOR_PORT,
}
_SITE_KEYS = (
    *("domain", "host", "cluster", "nodes", "accounts", "remotes", "tls", "engine", "streams", "helm"),
    *_PORTS,
    *STORE_KEYS,
)
_REMOTE_KEYS = ("site", "url", "account", "user", "password", "password_file", "seed", "creds")
SIZES = (1, 3)


def read_topology(files: Sequence[Path]) -> Topology:
    """Return the topology of a site file, or of the values files of several Helm releases."""
    documents = {path.stem: read_document(path) for path in files}
    first = next(iter(documents.values()))
    if all(helm.is_values(document) for document in documents.values()):
        releases = {name: helm.read_values(document) for name, document in documents.items()}
        return checked(helm.topology_of(releases), first)
    if len(files) > 1:
        raise SettingsError("pass one site file, or one or more values files of the nats chart")
    return checked(_Reader(first).topology(), first)


class _Reader:
    """Reads one site file."""

    def __init__(self, document: Entry) -> None:
        held = document.fields("operator", "accounts", "tls", "sites")
        if "sites" not in held or not held["sites"].entries():
            raise document.wrong("missing sites: add at least one site")
        self._sites = held["sites"].entries()
        self._operator = held["operator"].existing() if "operator" in held else None
        self._accounts = self._read_accounts(held["accounts"]) if "accounts" in held else ()
        self._tls = _tls(held["tls"]) if "tls" in held else None
        self._warnings: list[str] = []

    def topology(self) -> Topology:
        """Return the sites of the file."""
        sites = tuple(self._site(name, place) for place, name in enumerate(self._sites))
        return Topology(sites, tuple(self._warnings))

    def _read_accounts(self, entry: Entry) -> tuple[Account, ...]:
        return read_accounts(entry, self._operator)

    def _site(self, name: str, place: int) -> Site:
        entry = self._sites[name]
        held = entry.fields(*_SITE_KEYS)
        check_name(entry, name, "a site")
        said: dict[str, Any] = self._chart(held["helm"]) if "helm" in held else {}
        said.setdefault("accounts", self._accounts)
        if "accounts" in held:
            said["accounts"] = self._read_accounts(held["accounts"])
        business = tuple(account for account in said["accounts"] if not account.is_system)
        if not business:
            raise entry.wrong("the site has no account for streams: add accounts here, or for all sites")
        for key, default in _PORTS.items():
            said[key] = optional(held, key, _port, default + SITE_STRIDE * place)
        for key in ("cluster", "domain"):
            if key in held:
                said[key] = check_name(held[key], held[key].text(), f"a {key}")
        if "nodes" in held:
            said["size"] = held["nodes"].number(min(SIZES), max(SIZES))
        if "host" in held:
            said |= _hosts(held["host"], said.get("size", 1))
        if "remotes" in held:
            said["remotes"] = tuple(self._remote(each, said["accounts"]) for each in held["remotes"].items())
        if "streams" in held:
            said["streams"] = read_streams(held["streams"], business)
        defaults = {"domain": name, "cluster": name, "host": LOOPBACK}
        tls = _tls(held["tls"]) if "tls" in held else self._tls
        engine = self._known_site(held["engine"]) if "engine" in held else name
        said["store"] = read_store(
            held,
            nodes=said.get("size", 1),
            is_seat=engine != name,
            has_operator=self._operator is not None,
        )
        return Site(name=name, operator=self._operator, tls=tls, engine=engine, **{**defaults, **said})

    def _chart(self, entry: Entry) -> dict[str, Any]:
        """Return a site's values from a Helm release; its links are in the site file."""
        values = helm.read_values(read_document(entry.existing()))
        self._warnings += values.warnings
        found: dict[str, Any] = {"domain": values.domain, "accounts": values.accounts, "size": values.size}
        return {**found, "cluster": values.cluster} if values.cluster else found

    def _remote(self, entry: Entry, accounts: tuple[Account, ...]) -> Remote:
        held = entry.fields(*_REMOTE_KEYS)
        if "site" not in held and "url" not in held:
            raise entry.wrong("missing target of the link: add site or url")
        if "account" not in held:
            raise entry.wrong("missing account of the link: add account")
        name = held["account"].text()
        account = next((each for each in accounts if each.name == name), None)
        if account is None:
            known = listed(each.name for each in accounts)
            raise held["account"].wrong(f"there is no account {name!r}: use {known}")
        return Remote(
            account=name,
            user=read_login(entry, held, account),
            site=self._known_site(held["site"]) if "site" in held else "",
            url=optional(held, "url", _urls, ""),
        )

    def _known_site(self, entry: Entry) -> str:
        name = entry.text()
        if name not in self._sites:
            raise entry.wrong(f"there is no site {name!r}: use {listed(self._sites)}")
        return name


def _urls(entry: Entry) -> str:
    """Return the addresses of a link: one, or several to try in order."""
    urls = [each.text() for each in entry.items()] if isinstance(entry.value, list) else [entry.text()]
    return ",".join(url.strip() for each in urls for url in each.split(","))


def _hosts(entry: Entry, nodes: int) -> dict[str, Any]:
    """Return the address of all servers, or of each of them."""
    if not isinstance(entry.value, list):
        return {"host": entry.text()}
    hosts = tuple(each.text() for each in entry.items())
    if len(hosts) != nodes or len(set(hosts)) != nodes:
        raise entry.wrong(f"there must be as many different hosts as nodes, which are {nodes}")
    return {"host": hosts[0], "hosts": hosts}


def _port(entry: Entry) -> int:
    return entry.number(1, 65535)


def _tls(entry: Entry) -> Tls:
    held = entry.fields("cert", "key", "ca", "verify")
    for name in ("cert", "key", "ca"):
        if name not in held:
            raise entry.wrong(f"{name} is missing")
    cert, key, ca = (held[name].existing() for name in ("cert", "key", "ca"))
    return Tls(cert, key, ca, verify=optional(held, "verify", Entry.truth, False))


def resized(topology: Topology, size: int) -> Topology:
    """Return the same sites with another number of nodes each; one node cannot keep a journal."""
    sites = []
    for site in topology.sites:
        is_kept = site.store.journal != CLUSTER or size > 1
        store = site.store if is_kept else replace(site.store, journal=NO_JOURNAL)
        hosts = site.hosts if size == len(site.hosts) else ()
        sites.append(replace(site, size=size, store=store, hosts=hosts))
    return replace(topology, sites=tuple(sites))


def checked(topology: Topology, document: Entry) -> Topology:
    """Return the topology if it can run: unique domains and ports, and valid links."""
    domains: dict[str, str] = {}
    ports: dict[tuple[str, int], str] = {}
    for site in topology.sites:
        here = document.value.get("sites", document).value.get(site.name, document)
        if site.size not in SIZES:
            raise here.wrong(f"{site.name} has {site.size} nodes: a site has one or three")
        for account in site.business:
            domain = site.domain_of(account.name)
            if domain in domains:
                raise here.wrong(f"the domain {domain!r} is used by {domains[domain]} already")
            domains[domain] = site.name
        if site.has_journal_servers and site.account(JOURNAL_ACCOUNT):
            raise here.wrong(f"the account {JOURNAL_ACCOUNT} is the journal's: choose another name")
        for host, port in _ports_of(site):
            if (host, port) in ports:
                raise here.wrong(f"the port {port} of {host} is used by {ports[host, port]} already")
            ports[host, port] = site.name
        for user in (user for account in site.accounts for user in account.users if user.leaf):
            if user.leaf not in [other.name for other in topology.sites]:
                raise here.wrong(
                    f"the user {user.name!r} is for the link of {user.leaf!r}, which is not a site"
                )
        for remote in site.remotes:
            if why := _unusable(topology, site, remote):
                raise here.wrong(why)
    return topology


def _ports_of(site: Site) -> Iterator[tuple[str, int]]:
    for node in site.nodes:
        for port in (node.port, node.leaf_port, node.monitor_port):
            yield node.host, port
        if site.size > 1:
            yield node.host, node.route_port


def _unusable(topology: Topology, site: Site, remote: Remote) -> str:
    """Return why a link is invalid: no target, or a user that the target refuses."""
    if remote.site == site.name:
        return "a link from a site to itself"
    if not remote.site or remote.user.creds or remote.user.seed:
        return ""
    there = topology.site(remote.site)
    if any(account.user(remote.user.name) for account in there.accounts):
        return ""
    return f"{there.name} has no user {remote.user.name!r} for the link"
