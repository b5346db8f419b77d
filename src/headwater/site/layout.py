"""The files of a topology: a configuration for each server, settings for each engine, keys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nkeys

from headwater import private_file
from headwater.site.server_config import ServerPlacement, config_text
from headwater.site.topology import LOOPBACK, Account, Node, Site, Topology

ENGINE_SETTINGS = "engine.toml"


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

    def folder(self, site: str) -> Path:
        """Return the folder of a site."""
        return self.directory / site

    def server_config(self, site: Site, node: Node) -> Path:
        """Return the configuration file of a server."""
        return self.folder(site.name) / f"{node.name}.conf"

    def engine_settings(self, engine: str) -> Path:
        """Return the settings file of an engine."""
        return self.folder(engine) / ENGINE_SETTINGS

    def store(self, engine: str) -> Path:
        """Return the store of an engine."""
        return self._stores / engine if self._stores else self.folder(engine) / "store"

    def seed(self, site: Site, account: Account) -> Path:
        """Return the file with the key of the engine's user in an account."""
        return self.folder(site.name) / f"engine-{account.name}.nk"

    def write(self) -> list[Path]:
        """Write every file; existing keys are kept."""
        written = []
        for site in self.topology.sites:
            placement = ServerPlacement(self._listen, self._listen != LOOPBACK, self._engine_keys(site))
            for node in site.nodes:
                path = self.server_config(site, node)
                private_file.replace(path, config_text(self.topology, site, node, placement).encode())
                written.append(path)
        for engine, sites in self.topology.engines.items():
            path = self.engine_settings(engine)
            private_file.replace(path, self._settings_text(engine, sites).encode())
            written.append(path)
        return written

    def _engine_keys(self, site: Site) -> dict[str, str]:
        """Return the public keys of the engine's users; with an operator they have credentials instead."""
        if site.operator is not None:
            return {}
        return {account.name: _public_key(self.seed(site, account)) for account in site.business}

    def _settings_text(self, engine: str, sites: tuple[Site, ...]) -> str:
        """Return an engine's settings: those of the one account, or a seat for each."""
        seats = [self._seat(site, account) for site in sites for account in site.business]
        replicas = max(site.size for site in sites)
        whole: dict[str, Any] = {"store": str(self.store(engine)), "replicator": self._replicator}
        if replicas > 1:
            whole["max_replicas"] = replicas
        if len(seats) == 1:
            return _toml({**whole, **seats[0]})
        for seat, (site, account) in zip(seats, ((s, a) for s in sites for a in s.business), strict=True):
            seat["folder"] = f"{site.name}-{account.name}"
        return _toml(whole) + "".join(f"\n[[seat]]\n{_toml(seat)}" for seat in seats)

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
        if site.tls is not None:
            values["tls_ca"] = str(site.tls.ca)
            if site.tls.verify:
                values |= {"tls_cert": str(site.tls.cert), "tls_key": str(site.tls.key)}
        return values


def _toml(values: Mapping[str, Any]) -> str:
    """Return flat settings as TOML; its strings are written as in JSON."""
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _public_key(path: Path) -> str:
    """Return the public key of a seed file, which is created if missing."""
    if not path.exists():
        seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        private_file.replace(path, bytes(seed) + b"\n")
    return str(nkeys.from_seed(path.read_bytes().strip()).public_key.decode())
