"""Values of the nats Helm chart (0.x) as a site: which keys count here, and which are passed over aloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headwater.errors import SettingsError
from headwater.site.account_entries import plain_password
from headwater.site.document import Entry, optional
from headwater.site.topology import (
    CLIENT_PORT,
    LEAF_PORT,
    MONITOR_PORT,
    ROUTE_PORT,
    SITE_STRIDE,
    Account,
    Remote,
    Site,
    Topology,
    User,
)

CHART_NODES = 3
"""How many nodes the chart starts when a cluster is enabled and nobody says how many."""
_TOP = ("nats", "cluster", "leafnodes", "auth")
# What counts at each place; whatever else the chart knows says nothing about who talks to whom.
HONOURED = {
    "nats": ("jetstream",),
    "nats.jetstream": ("enabled", "domain"),
    "cluster": ("enabled", "name", "replicas"),
    "leafnodes": ("enabled", "port", "no_advertise", "noAdvertise", "remotes"),
    "auth": ("enabled", "basic", "systemAccount"),
    "auth.basic": ("accounts",),
}


@dataclass(frozen=True)
class LeafRemote:
    """A leaf remote as the chart has it."""

    account: str
    user: str
    secret: str
    address: str


@dataclass(frozen=True)
class Values:
    """What one values file says."""

    domain: str
    cluster: str
    size: int
    accounts: tuple[Account, ...]
    listens: bool
    leaf_port: int
    links: tuple[LeafRemote, ...]
    warnings: tuple[str, ...]


def is_values(document: Entry) -> bool:
    """Return whether a document looks like values of the chart rather than a site file."""
    held = document.entries()
    return "sites" not in held and bool(held.keys() & set(_TOP))


def read_values(document: Entry) -> Values:
    """Return what counts of a values file; the keys that do not are named in its warnings."""
    warnings: list[str] = []
    top = _honoured(document, _TOP, warnings)
    jetstream = _below(_below(top, "nats", warnings), "jetstream", warnings, "nats.jetstream")
    cluster = _below(top, "cluster", warnings)
    leafnodes = _below(top, "leafnodes", warnings)
    auth = _below(top, "auth", warnings)
    basic = _below(auth, "basic", warnings, "auth.basic")
    if not optional(jetstream, "enabled", Entry.truth, False) or "domain" not in jetstream:
        raise document.wrong("nats.jetstream must be enabled and have a domain")
    system = optional(auth, "systemAccount", Entry.text, "SYS")
    accounts = tuple(
        _account(name, entry, name == system, warnings)
        for name, entry in (basic["accounts"].entries() if "accounts" in basic else {}).items()
    )
    clustered = optional(cluster, "enabled", Entry.truth, False)
    return Values(
        domain=jetstream["domain"].text(),
        cluster=optional(cluster, "name", Entry.text, ""),
        size=optional(cluster, "replicas", lambda e: e.number(1, 9), CHART_NODES) if clustered else 1,
        accounts=accounts or (Account("ACC"),),
        listens=optional(leafnodes, "enabled", Entry.truth, False),
        leaf_port=optional(leafnodes, "port", lambda e: e.number(1, 65535), LEAF_PORT),
        links=tuple(_link(each, warnings) for each in leafnodes["remotes"].items())
        if "remotes" in leafnodes
        else (),
        warnings=tuple(warnings),
    )


def topology_of(releases: Mapping[str, Values]) -> Topology:
    """Return the sites of several releases; every link goes to the one that listens for leaf nodes."""
    hubs = [name for name, values in releases.items() if values.listens]
    sites = []
    for place, (name, values) in enumerate(releases.items()):
        if values.links and len(hubs) != 1:
            raise SettingsError(
                f"{name} has leaf remotes, and {len(hubs)} of these releases have leafnodes.enabled: "
                "it must be one, or say it in a site file"
            )
        away = SITE_STRIDE * place
        sites.append(
            Site(
                name=name,
                domain=values.domain,
                accounts=values.accounts,
                cluster=values.cluster or name,
                size=values.size,
                port=CLIENT_PORT + away,
                route_port=ROUTE_PORT + away,
                leaf_port=LEAF_PORT + away,
                monitor_port=MONITOR_PORT + away,
                remotes=tuple(_remote(link, hubs[0]) for link in values.links),
                engine=name,
            )
        )
    return Topology(
        tuple(sites), tuple(warning for values in releases.values() for warning in values.warnings)
    )


def _remote(link: LeafRemote, hub: str) -> Remote:
    user = User(link.user, secret=link.secret)
    return Remote(link.account, user, hub, public_url=f"nats://{link.address}")


def _honoured(entry: Entry, known: tuple[str, ...], warnings: list[str]) -> dict[str, Entry]:
    held = entry.entries()
    for name, inner in held.items():
        if name not in known:
            warnings.append(f"{inner.file}:{inner.line}: {inner.path} is passed over")
    return {name: inner for name, inner in held.items() if name in known}


def _below(held: Mapping[str, Entry], name: str, warnings: list[str], place: str = "") -> dict[str, Entry]:
    return _honoured(held[name], HONOURED[place or name], warnings) if name in held else {}


def _account(name: str, entry: Entry, is_system: bool, warnings: list[str]) -> Account:
    held = _honoured(entry, ("users", "jetstream", "exports", "imports"), warnings)
    users = []
    for user in held["users"].items() if "users" in held else ():
        fields = _honoured(user, ("user", "pass", "permissions"), warnings)
        if "user" not in fields or "pass" not in fields:
            raise user.wrong("a user needs a user and a pass")
        password = fields["pass"].text()
        permissions = fields["permissions"].json() if "permissions" in fields else None
        users.append(User(fields["user"].text(), password, plain_password(password), permissions=permissions))
    return Account(
        name,
        tuple(users),
        is_system,
        exports=tuple(held["exports"].json()) if "exports" in held else (),
        imports=tuple(held["imports"].json()) if "imports" in held else (),
    )


def _links(leafnodes: Mapping[str, Entry], warnings: list[str]) -> tuple[LeafRemote, ...]:
    if "remotes" not in leafnodes:
        return ()
    return tuple(_link(each, warnings) for each in leafnodes["remotes"].items())


def _link(entry: Entry, warnings: list[str]) -> LeafRemote:
    held = _honoured(entry, ("url", "account"), warnings)
    if "url" not in held or "account" not in held:
        raise entry.wrong("a remote needs a url and an account")
    parts = urlsplit(held["url"].text())
    try:
        address = f"{parts.hostname}:{parts.port or LEAF_PORT}"
    except ValueError:
        raise held["url"].wrong("is not an address") from None
    return LeafRemote(
        held["account"].text(), unquote(parts.username or ""), unquote(parts.password or ""), address
    )
