"""Values of the nats Helm chart (1.0 or later) as a site.

The keys in `HONOURED` are read. Keys in `WITHOUT_EFFECT`, empty ones and those of parts that are not enabled
change nothing on one machine. Every other key is ignored with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
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
"""How many nodes the chart starts if the cluster is enabled without `replicas`."""
SYSTEM = "SYS"
"""The system account if the values name none."""
_OLD_TOP = ("nats", "cluster", "leafnodes", "auth")
"""Top-level keys of the chart's versions 0.x, which are refused."""
# The keys that describe servers, accounts and links. `merge` holds keys of nats-server's own configuration.
HONOURED = {
    "": ("config",),
    "config": ("cluster", "jetstream", "leafnodes", "merge"),
    "config.cluster": ("enabled", "replicas", "merge"),
    "config.cluster.merge": ("name",),
    "config.jetstream": ("enabled", "merge"),
    "config.jetstream.merge": ("domain",),
    "config.leafnodes": ("enabled", "port", "merge"),
    "config.leafnodes.merge": ("no_advertise", "remotes"),
    "config.merge": ("accounts", "default_js_domain", "system_account"),
}
# What the chart does with Kubernetes, and ports and files, which are those of the site here.
WITHOUT_EFFECT = {
    "": (
        *("global", "nameOverride", "fullnameOverride", "namespaceOverride", "container", "reloader"),
        *("promExporter", "service", "headlessService", "statefulSet", "podTemplate", "podDisruptionBudget"),
        *("serviceAccount", "configMap", "natsBox", "extraResources"),
    ),
    "config": ("monitor", "nats", "serverNamePrefix"),
    "config.cluster": ("noAdvertise", "port", "routeURLs"),
    "config.jetstream": ("fileStore", "memoryStore"),
}


@dataclass(frozen=True)
class LeafRemote:
    """A leaf remote in a values file."""

    account: str
    user: str
    secret: str
    address: str


@dataclass(frozen=True)
class Values:
    """The contents of one values file."""

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
    return "sites" not in held and ("config" in held or bool(held.keys() & set(_OLD_TOP)))


def read_values(document: Entry) -> Values:
    """Return the site that a values file describes; ignored keys are in its warnings."""
    if document.entries().keys() & set(_OLD_TOP):
        raise document.wrong("these are values of the nats chart 0.x: write them for chart 1.0 or later")
    warnings: list[str] = []
    config = _below(_honoured(document, "", warnings), "config", warnings)
    jetstream = _below(config, "config.jetstream", warnings)
    cluster = _below(config, "config.cluster", warnings)
    leafnodes = _below(config, "config.leafnodes", warnings)
    links = _links(_below(leafnodes, "config.leafnodes.merge", warnings), warnings)
    merged = _below(config, "config.merge", warnings)
    accounts = _accounts(merged, warnings) or (Account("ACC"),)
    is_enabled = optional(jetstream, "enabled", Entry.truth, False)
    domains = _below(jetstream, "config.jetstream.merge", warnings) if is_enabled else {}
    domain = domains.get("domain") or _default_domain(merged, accounts)
    if domain is None:
        raise document.wrong(
            "config.jetstream must be enabled and have merge.domain, or config.merge.default_js_domain must "
            "name the domain of the first account"
        )
    clustered = optional(cluster, "enabled", Entry.truth, False)
    return Values(
        domain=domain.text(),
        cluster=optional(_below(cluster, "config.cluster.merge", warnings), "name", Entry.text, ""),
        size=optional(cluster, "replicas", lambda e: e.number(1, 9), CHART_NODES) if clustered else 1,
        accounts=accounts,
        # The chart writes remotes only if leaf nodes are enabled, so that spokes enable them too.
        listens=optional(leafnodes, "enabled", Entry.truth, False) and not links,
        leaf_port=optional(leafnodes, "port", lambda e: e.number(1, 65535), LEAF_PORT),
        links=links,
        warnings=tuple(warnings),
    )


def topology_of(releases: Mapping[str, Values]) -> Topology:
    """Return the sites of several releases; every link goes to the one that listens for leaf nodes."""
    hubs = [name for name, values in releases.items() if values.listens]
    sites = []
    for place, (name, values) in enumerate(releases.items()):
        if values.links and len(hubs) != 1:
            raise SettingsError(
                f"{name} has leaf remotes, so exactly one release must have config.leafnodes.enabled and no "
                f"remotes, not {len(hubs)}: correct the values, or write a site file"
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


def _default_domain(merged: Mapping[str, Entry], accounts: tuple[Account, ...]) -> Entry | None:
    """Return the domain to which clients of the first account are mapped that name none."""
    domains = merged["default_js_domain"].entries() if "default_js_domain" in merged else {}
    business = [account.name for account in accounts if not account.is_system]
    return domains.get(business[0]) if business else None


def _honoured(entry: Entry, path: str, warnings: list[str]) -> dict[str, Entry]:
    """Return the entries of a part of the values that are read."""
    return _known(entry, HONOURED[path], warnings, WITHOUT_EFFECT.get(path, ()))


def _known(
    entry: Entry, known: tuple[str, ...], warnings: list[str], quiet: tuple[str, ...] = ()
) -> dict[str, Entry]:
    """Return the entries that are known; warn of each other one, unless it changes nothing."""
    held = entry.entries()
    for name, inner in held.items():
        if name not in (*known, *quiet) and not _changes_nothing(inner.json()):
            warnings.append(f"{inner.file}:{inner.line}: {inner.path} is ignored")
    return {name: inner for name, inner in held.items() if name in known}


def _changes_nothing(value: Any) -> bool:
    return value in (None, "", {}, []) or (isinstance(value, dict) and value.get("enabled") is False)


def _below(held: Mapping[str, Entry], path: str, warnings: list[str]) -> dict[str, Entry]:
    """Return the entries at a path of the values whose parent has these entries."""
    name = path.rpartition(".")[2]
    return _honoured(held[name], path, warnings) if name in held else {}


def _accounts(held: Mapping[str, Entry], warnings: list[str]) -> tuple[Account, ...]:
    system = optional(held, "system_account", Entry.text, SYSTEM)
    entries = held["accounts"].entries() if "accounts" in held else {}
    return tuple(_account(name, entry, name == system, warnings) for name, entry in entries.items())


def _account(name: str, entry: Entry, is_system: bool, warnings: list[str]) -> Account:
    held = _known(entry, ("users", "jetstream", "exports", "imports"), warnings)
    users = []
    for user in held["users"].items() if "users" in held else ():
        fields = _known(user, ("user", "password", "permissions"), warnings)
        if "user" not in fields or "password" not in fields:
            raise user.wrong("a user needs a user and a password")
        password = fields["password"].text()
        permissions = fields["permissions"].json() if "permissions" in fields else None
        users.append(User(fields["user"].text(), password, plain_password(password), permissions=permissions))
    return Account(
        name,
        tuple(users),
        is_system,
        exports=tuple(held["exports"].json()) if "exports" in held else (),
        imports=tuple(held["imports"].json()) if "imports" in held else (),
    )


def _links(held: Mapping[str, Entry], warnings: list[str]) -> tuple[LeafRemote, ...]:
    return tuple(_link(each, warnings) for each in held["remotes"].items()) if "remotes" in held else ()


def _link(entry: Entry, warnings: list[str]) -> LeafRemote:
    # A link between sites denies what the engines keep to themselves, whether the values say so or not.
    held = _known(entry, ("url", "urls", "account"), warnings, ("deny_imports", "deny_exports"))
    urls = [held["url"]] if "url" in held else [*held["urls"].items()] if "urls" in held else []
    if not urls or "account" not in held:
        raise entry.wrong("a remote needs a url and an account")
    parts = urlsplit(urls[0].text())
    try:
        address = f"{parts.hostname}:{parts.port or LEAF_PORT}"
    except ValueError:
        raise urls[0].wrong("is not an address") from None
    return LeafRemote(
        held["account"].text(), unquote(parts.username or ""), unquote(parts.password or ""), address
    )
