"""The configuration of a site's nats-servers: accounts, permissions, links, TLS."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from headwater.bus import permissions
from headwater.bus.permissions import INTERNAL
from headwater.site.topology import (
    JOURNAL_ACCOUNT,
    JOURNAL_USER,
    LOOPBACK,
    Account,
    Json,
    Node,
    Remote,
    Site,
    Tls,
    Topology,
    User,
)

DEFAULT_SYSTEM = "$SYS"
"""nats-server's own name of a system account that no file defines."""
HOW_SERVERS_SYNC = "$SYS.REQ.SERVER.PING.JSZ"


@dataclass(frozen=True)
class ServerPlacement:
    """Where the configuration will run: listen and public addresses, and the engines' nkeys."""

    listen: str = LOOPBACK
    is_public: bool = False
    """Whether links use the public addresses of real hosts."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """The public nkey of the engine's user, by business account."""
    jetstream: str = ""
    """The folder for JetStream of the servers that keep a journal."""
    journal_password: str = field(default="", repr=False)


def config_text(topology: Topology, site: Site, node: Node, placement: ServerPlacement) -> str:
    """Return the configuration of one node."""
    parts = [
        _line("server_name", node.name),
        _line("listen", f"{placement.listen}:{node.port}"),
        # Monitoring shows connections, so that it listens on loopback only.
        _line("http", f"{LOOPBACK}:{node.monitor_port}"),
        # An engine that folds or compacts may read late; it must not be disconnected as a slow consumer.
        "max_pending: 536870912",
        'write_deadline: "30s"',
        # A dead link is detected within a minute.
        'ping_interval: "20s"',
        *([f"tls {_block(_tls(site.tls))}"] if site.tls else ()),
        *([_cluster(site, node, placement)] if site.size > 1 else ()),
        *([_jetstream(site, node, placement)] if site.has_journal_servers else ()),
        _leafnodes(topology, site, node, placement),
        *(_operator(site) if site.operator else _accounts(topology, site, placement)),
        _default_domains(site),
    ]
    return "\n".join(parts) + "\n"


def _line(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(value)}"


def _block(values: Json, indent: str = "") -> str:
    """Return a mapping in nats-server's configuration format, with values as JSON."""
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(name)}: {_value(value, inner)}" for name, value in values.items()]
    return "{\n" + "\n".join(lines) + f"\n{indent}}}"


def _value(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        return _block(value, indent)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        inner = indent + "  "
        return "[\n" + "\n".join(f"{inner}{_block(each, inner)}" for each in value) + f"\n{indent}]"
    return json.dumps(value)


def _tls(tls: Tls) -> Json:
    values: Json = {"cert_file": str(tls.cert), "key_file": str(tls.key), "ca_file": str(tls.ca)}
    return {**values, "verify": True} if tls.verify else values


def _cluster(site: Site, node: Node, placement: ServerPlacement) -> str:
    routes = [f"nats://{each.host}:{each.route_port}" for each in site.nodes if each != node]
    values: Json = {"name": site.cluster, "listen": f"{placement.listen}:{node.route_port}", "routes": routes}
    if site.tls:
        values["tls"] = _tls(site.tls)
    return f"cluster {_block(values)}"


def _jetstream(site: Site, node: Node, placement: ServerPlacement) -> str:
    """Return JetStream for the journal only; clients see the engine's instead."""
    values: Json = {
        "store_dir": f"{placement.jetstream}/{node.name}",
        # A server syncs each record before it acknowledges it.
        "sync_interval": "always",
        # Not the engine's domain, and another one at each site: no link may extend JetStream to other sites.
        "domain": f"{site.domain}-journal",
        # Otherwise a server with a link of the system account waits for the other end to elect a leader.
        "extension_hint": "no_extend",
    }
    return f"jetstream {_block(values)}"


def _journal_accounts(site: Site, placement: ServerPlacement) -> Json:
    """Return the account of the journal, which may ask the servers how they sync."""
    system = site.system.name if site.system is not None else DEFAULT_SYSTEM
    return {
        JOURNAL_ACCOUNT: {
            "jetstream": "enabled",
            "users": [{"user": JOURNAL_USER, "password": placement.journal_password}],
            "imports": [{"service": {"account": system, "subject": HOW_SERVERS_SYNC}}],
        }
    }


def _export_of_servers() -> Json:
    return {"service": HOW_SERVERS_SYNC, "response": "stream", "accounts": [JOURNAL_ACCOUNT]}


def _leafnodes(topology: Topology, site: Site, node: Node, placement: ServerPlacement) -> str:
    values: Json = {
        "listen": f"{placement.listen}:{node.leaf_port}",
        # A link uses only the addresses in the file, not advertised ones.
        "no_advertise": True,
        # After a long outage, a link must reconnect quickly.
        "reconnect": "1s",
    }
    if site.tls:
        values["tls"] = _tls(site.tls)
    if site.remotes:
        values["remotes"] = [_remote(topology, site, remote, placement) for remote in site.remotes]
    return f"leafnodes {_block(values)}"


def _remote(topology: Topology, site: Site, remote: Remote, placement: ServerPlacement) -> Json:
    urls = (placement.is_public and remote.public_url) or remote.url
    plain = tuple(urls.split(",")) if urls else topology.site(remote.site).leaf_urls()
    values: Json = {"urls": [_with_login(url, remote.user) for url in plain]}
    if not site.operator:
        values["account"] = remote.account
    if remote.user.creds:
        values["credentials"] = str(remote.user.creds)
    elif remote.user.seed:
        values["nkey"] = remote.user.seed.read_text().strip()  # nats-server takes the seed, not its file
    account = site.account(remote.account)
    if account is not None and not account.is_system:
        values |= {"deny_imports": [INTERNAL], "deny_exports": [INTERNAL]}
    there = topology.site(remote.site) if remote.site else None
    if there is not None and there.tls is not None:
        values["tls"] = {"ca_file": str(there.tls.ca), **(_tls(site.tls) if site.tls else {})}
    # Only then: older servers do not know the key.
    return {**values, "disabled": True} if remote.is_cut else values


def _with_login(url: str, user: User) -> str:
    if not user.secret or user.seed or user.creds:
        return url
    scheme, _, address = url.partition("://")
    return (
        f"{scheme}://{quote(user.name, safe='')}:{quote(user.secret, safe='')}@{address.rpartition('@')[2]}"
    )


def _operator(site: Site) -> list[str]:
    """Return the operator's accounts, preloaded from the configuration."""
    preload = {
        account_key(account): account.jwt.read_text().strip() for account in site.accounts if account.jwt
    }
    lines = [_line("operator", str(site.operator)), "resolver: MEMORY", f"resolver_preload {_block(preload)}"]
    if site.system is not None:
        lines.append(_line("system_account", account_key(site.system)))
    return lines


def _subject(jwt: str) -> str:
    """Return the subject of a JWT."""
    body = jwt.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"])


def _accounts(topology: Topology, site: Site, placement: ServerPlacement) -> list[str]:
    accounts = {account.name: _account(topology, site, account, placement) for account in site.accounts}
    if site.has_journal_servers:
        accounts |= _journal_accounts(site, placement)
        system = accounts.setdefault(site.system.name if site.system else DEFAULT_SYSTEM, {})
        system["exports"] = [*system.get("exports", ()), _export_of_servers()]
    lines = [f"accounts {_block(accounts)}"]
    if site.system is not None:
        lines.append(_line("system_account", site.system.name))
    return lines


def _account(topology: Topology, site: Site, account: Account, placement: ServerPlacement) -> Json:
    users = [_user(user, permissions_of(topology, site, account, user)) for user in account.users]
    if account.name in placement.engines:
        users.append({"nkey": placement.engines[account.name], "permissions": permissions.engine()})
    values: Json = {"users": users}
    if account.exports:
        values["exports"] = list(account.exports)
    if account.imports:
        values["imports"] = list(account.imports)
    return values


def _user(user: User, allowed: Json | None) -> Json:
    values: Json = {"nkey": user.nkey} if user.nkey else {"user": user.name, "password": user.password}
    return {**values, "permissions": allowed} if allowed else values


def permissions_of(topology: Topology, site: Site, account: Account, user: User) -> Json | None:
    """Return a user's permissions: only engines may use the engines' internal subjects."""
    if account.is_system:
        return user.permissions
    if user.leaf:
        return _spoke(topology, site, account, topology.site(user.leaf))
    if any(
        r.site == site.name and r.user.name == user.name for other in topology.sites for r in other.remotes
    ):
        # A link serves the API of its own site, so it must be able to subscribe to it.
        return permissions.closed(user.permissions)
    return permissions.client(user.permissions)


def _spoke(topology: Topology, hub: Site, account: Account, spoke: Site) -> Json:
    """Return the permissions of a site's link: serve its own streams, and read those that it copies."""
    declared = [stream.config for stream in spoke.streams if stream.account == account.name]
    sources = [source for config in declared for source in (config.get("mirror"), *config.get("sources", ()))]
    origins = {((s.get("external") or {}).get("api", ""), s["name"]) for s in sources if s}
    reads = sorted(
        (api.split(".")[1], stream)
        for api, stream in origins
        if api.startswith("$JS.") and api.endswith(".API") and api != "$JS.API"
    )
    subjects = sorted({subject for config in declared for subject in config.get("subjects", ())})
    return permissions.spoke(spoke.domain_of(account.name), subjects=subjects, reads=reads)


def _default_domains(site: Site) -> str:
    """Return the setting that maps clients without a domain to the engine of their site."""
    return f"default_js_domain {_block({account_key(a): site.domain_of(a.name) for a in site.business})}"


def account_key(account: Account) -> str:
    """Return nats-server's key of an account."""
    return _subject(account.jwt.read_text().strip()) if account.jwt else account.name
