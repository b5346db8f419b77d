"""The files of a topology: a configuration for each server, settings for each engine, keys."""

from __future__ import annotations

import copy
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nkeys

from headwater import private_file
from headwater.site.server_config import ServerPlacement, config_text
from headwater.site.topology import JOURNAL_USER, LOOPBACK, Account, Node, Site, Tls, Topology

_NO_JOURNAL_NAME = re.compile(r"[^A-Za-z0-9_-]")


class SiteFolders:
    """A directory for each site with the files that its processes are started with."""

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        *,
        listen: str = LOOPBACK,
        replicator: str = "submitted",
        at: Path | None = None,
        stores: Path | None = None,
    ) -> None:
        """Write to `directory` files that will be deployed at `at`, with stores below `stores`."""
        self.topology = topology
        self.directory = directory.absolute()
        self._listen = listen
        self._replicator = replicator
        self._at = at or self.directory
        self._stores = stores

    def with_topology(self, topology: Topology) -> SiteFolders:
        """Return the same folders for sites that differ in their links."""
        other = copy.copy(self)
        other.topology = topology
        return other

    def folder(self, site: str) -> Path:
        """Return the folder of a site."""
        return self.directory / site

    def server_config(self, site: Site, node: Node) -> Path:
        """Return the configuration file of a server."""
        return self.folder(site.name) / f"{node.name}.conf"

    def engine_settings(self, engine: str, number: int = 1) -> Path:
        """Return the settings file of an engine: the first, second, … of its site."""
        return self.folder(engine) / f"{_numbered('engine', number)}.toml"

    def store(self, engine: str, number: int = 1) -> Path:
        """Return the directory of an engine; engines without a journal share one."""
        name = "store" if self._stores is None else engine
        folder = self.folder(engine) if self._stores is None else self._stores
        return folder / (_numbered(name, number) if self.topology.site(engine).has_journal else name)

    def numbers(self, engine: str) -> range:
        """Return the numbers of a site's engines; hosts have one each, with equal files."""
        count = self.topology.site(engine).store.engines
        return range(1, 2 if self._stores else count + 1)

    def tables(self, engine: str) -> str:
        """Return the address of the tables of an engine, empty if they are in its store."""
        site = self.topology.site(engine)
        if site.store.tables or not site.has_journal:
            return site.store.tables
        return f"file://{self.folder(engine) / 'tables'}"

    def journal(self, engine: str) -> str:
        """Return the address of the journal of an engine, with its login, empty if there is none."""
        site = self.topology.site(engine)
        if not site.has_journal:
            return ""
        if not site.has_journal_servers:
            return site.store.journal
        scheme = "tls" if site.tls else "nats"
        hosts = ",".join(f"{node.host}:{node.port}" for node in site.nodes)
        password = _secret(self.journal_password(site))
        return f"{scheme}://{JOURNAL_USER}:{password}@{hosts}/{_NO_JOURNAL_NAME.sub('_', engine)}"

    def journal_password(self, site: Site) -> Path:
        """Return the file with the password of the journal that a site's servers keep."""
        return self.folder(site.name) / "journal.password"

    def seed(self, site: Site, account: Account) -> Path:
        """Return the file with the key of the engine's user in an account."""
        return self.folder(site.name) / f"engine-{account.name}.nk"

    def write(self) -> list[Path]:
        """Write every file; existing keys are kept."""
        written = [path for site in self.topology.sites for path in self.write_servers(site)]
        for engine, sites in self.topology.engines.items():
            for number in self.numbers(engine):
                path = self.engine_settings(engine, number)
                private_file.replace(path, self._settings_text(engine, sites, number).encode())
                written.append(path)
        return written

    def write_servers(self, site: Site) -> list[Path]:
        """Write the configuration of each server of a site."""
        written = []
        placement = self._placement(site)
        for node in site.nodes:
            path = self.server_config(site, node)
            private_file.replace(path, config_text(self.topology, site, node, placement).encode())
            written.append(path)
        return written

    def _placement(self, site: Site) -> ServerPlacement:
        keeps = site.has_journal_servers
        return ServerPlacement(
            self._listen,
            self._listen != LOOPBACK,
            self._engine_keys(site),
            str(self._stores / site.name if self._stores else self.folder(site.name) / "journal"),
            _secret(self.journal_password(site)) if keeps else "",
        )

    def _engine_keys(self, site: Site) -> dict[str, str]:
        """Return the public keys of the engine's users; with an operator they have credentials instead."""
        if site.operator is not None:
            return {}
        return {account.name: _public_key(self.seed(site, account)) for account in site.business}

    def _settings_text(self, engine: str, sites: tuple[Site, ...], number: int) -> str:
        """Return an engine's settings: those of the one account, or a seat for each."""
        seats = [self._seat(site, account) for site in sites for account in site.business]
        whole: dict[str, Any] = {"store": str(self.store(engine, number)), "replicator": self._replicator}
        whole |= self._kept(engine)
        if len(seats) == 1:
            return _toml({**whole, **seats[0]})
        for seat, (site, account) in zip(seats, ((s, a) for s in sites for a in s.business), strict=True):
            seat["folder"] = f"{site.name}-{account.name}"
        return _toml(whole) + "".join(f"\n[[seat]]\n{_toml(seat)}" for seat in seats)

    def _kept(self, engine: str) -> dict[str, Any]:
        """Return the settings of the journal and the tables, and those of several engines."""
        site = self.topology.site(engine)
        store = site.store
        several = store.engines > 1
        values: dict[str, Any] = {
            "journal": self.journal(engine),
            "journal_creds": str(store.journal_creds or ""),
            "journal_lenient": store.journal_lenient,
            "tables": self.tables(engine),
            "tables_endpoint": store.tables_endpoint,
            "tables_region": store.tables_region,
            "max_replicas": store.max_replicas if store.max_replicas > 1 else 0,
            "standby": several,
            # A replicator continues with the engine that takes over.
            "replication_secret": _secret(self.folder(engine) / "replication.secret") if several else "",
        }
        if site.has_journal_servers and site.tls is not None:
            values |= _certificates(site.tls)
        return {name: value for name, value in values.items() if value}

    def _seat(self, site: Site, account: Account) -> dict[str, Any]:
        values: dict[str, Any] = {
            "account": account.name,
            "domain": site.domain_of(account.name),
            # Streams and consumers of several sites may have equal names; ack subjects must differ.
            "ack_format": "v2",
            "server_name": site.name,
            "cluster": site.cluster or site.name,
            "nats_url": ",".join(site.client_urls()),
            "leaf_url": ",".join(site.leaf_urls()),
        }
        if site.operator is not None:
            values["creds"] = str(next(user.creds for user in account.users if user.creds))
        else:
            values["nkey"] = str(self._at / site.name / self.seed(site, account).name)
        return values if site.tls is None else values | _certificates(site.tls)


def _certificates(tls: Tls) -> dict[str, str]:
    """Return what an engine trusts, and what it presents if servers ask for it."""
    values = {"tls_ca": str(tls.ca)}
    return values | {"tls_cert": str(tls.cert), "tls_key": str(tls.key)} if tls.verify else values


def _toml(values: Mapping[str, Any]) -> str:
    """Return flat settings as TOML; its strings are written as in JSON."""
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _secret(path: Path) -> str:
    """Return the secret in a file, which is created if missing."""
    if not path.exists():
        private_file.replace(path, secrets.token_hex(24).encode() + b"\n")
    return path.read_text().strip()


def _public_key(path: Path) -> str:
    """Return the public key of a seed file, which is created if missing."""
    if not path.exists():
        seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        private_file.replace(path, bytes(seed) + b"\n")
    return str(nkeys.from_seed(path.read_bytes().strip()).public_key.decode())
