"""Sites as values: servers, accounts, links and streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

CLIENT_PORT, ROUTE_PORT, LEAF_PORT, MONITOR_PORT = 4222, 6222, 7422, 8222
SITE_STRIDE = 100
"""Distance between the default ports of sites on one machine."""
LOOPBACK = "127.0.0.1"
CLUSTER = "cluster"
"""The journal of a site that its own nats-servers keep."""
NO_JOURNAL = "none"
JOURNAL_COPIES = 3
"""How many copies a journal on a NATS cluster keeps."""
JOURNAL_ACCOUNT, JOURNAL_USER = "HEADWATER_JOURNAL", "journal"


@dataclass(frozen=True)
class User:
    """A user: a name and a password, an nkey, or a credentials file."""

    name: str
    password: str = field(default="", repr=False)
    """As in nats-server's configuration: plain or a bcrypt hash."""
    secret: str = field(default="", repr=False)
    """The plain password, if it is known."""
    nkey: str = ""
    seed: Path | None = None
    creds: Path | None = None
    permissions: Json | None = None
    leaf: str = ""
    """The site whose link uses this user. It gets only the permissions that a link needs."""

    @property
    def can_log_in(self) -> bool:
        """Return whether the user's secret is known."""
        return bool(self.secret or self.seed or self.creds)


@dataclass(frozen=True)
class Account:
    """One account and its users; the system account has no streams."""

    name: str
    users: tuple[User, ...] = ()
    is_system: bool = False
    jwt: Path | None = None
    exports: tuple[Json, ...] = ()
    imports: tuple[Json, ...] = ()

    def user(self, name: str) -> User | None:
        """Return the user of this name."""
        return next((user for user in self.users if user.name == name), None)


@dataclass(frozen=True)
class Tls:
    """A server's TLS certificate and its certificate authority."""

    cert: Path
    key: Path
    ca: Path
    verify: bool = False


@dataclass(frozen=True)
class Remote:
    """A link that a site opens to another one, for one account."""

    account: str
    user: User
    site: str = ""
    """The target site, if it is in this file."""
    url: str = ""
    """Addresses of the target, separated by commas; empty for the target site's own."""
    public_url: str = ""
    """The target's address from real hosts, if it differs."""
    is_cut: bool = False
    """Whether it is disabled for a while, to try what happens then."""


@dataclass(frozen=True)
class DeclaredStream:
    """A stream to create at a site, and its account."""

    account: str
    config: Json
    place: str
    """File and line, for error messages."""

    @property
    def name(self) -> str:
        """Return the stream's name."""
        return str(self.config["name"])


class Node(NamedTuple):
    """One nats-server of a site and its ports."""

    name: str
    host: str
    port: int
    route_port: int
    leaf_port: int
    monitor_port: int


@dataclass(frozen=True)
class SiteStore:
    """Where the engines of a site keep their streams, and how many engines there are."""

    engines: int = 1
    journal: str = ""
    """An address, `cluster` or `none`; empty if the file does not say."""
    journal_creds: Path | None = None
    journal_lenient: bool = False
    tables: str = ""
    """An address; empty for the store, or for a folder next to it if there is a journal."""
    tables_endpoint: str = ""
    tables_region: str = ""
    max_replicas: int = 1
    """How many copies the storage keeps, as the file declares."""


@dataclass(frozen=True)
class Site:
    """One location: its servers, accounts, domain and links."""

    name: str
    domain: str
    accounts: tuple[Account, ...]
    host: str = LOOPBACK
    hosts: tuple[str, ...] = ()
    """The addresses of the servers, if each has a host of its own."""
    cluster: str = ""
    size: int = 1
    port: int = CLIENT_PORT
    route_port: int = ROUTE_PORT
    leaf_port: int = LEAF_PORT
    monitor_port: int = MONITOR_PORT
    remotes: tuple[Remote, ...] = ()
    tls: Tls | None = None
    operator: Path | None = None
    engine: str = ""
    """The site whose engine serves this one; by default the site itself."""
    streams: tuple[DeclaredStream, ...] = ()
    store: SiteStore = field(default_factory=SiteStore)

    @property
    def has_journal_servers(self) -> bool:
        """Return whether the site's own nats-servers keep the journal of its engines.

        If the file does not say so, those of three nodes do. With an operator, only the operator can add
        the account that the journal needs.
        """
        if self.engine != self.name:
            return False
        is_usual = not self.store.journal and self.size >= JOURNAL_COPIES and self.operator is None
        return is_usual or self.store.journal == CLUSTER

    @property
    def has_journal(self) -> bool:
        """Return whether the site's engines have a journal."""
        return self.has_journal_servers or self.store.journal not in ("", NO_JOURNAL)

    @property
    def copies(self) -> int:
        """Return the largest num_replicas that the site's engines accept."""
        on_nats = self.has_journal_servers or self.store.journal.startswith(("nats://", "tls://"))
        return max(JOURNAL_COPIES if on_nats else 1, self.store.max_replicas)

    @property
    def nodes(self) -> Iterator[Node]:
        """Yield the site's servers: on consecutive ports, or on hosts of their own."""
        for place in range(self.size):
            name = f"{self.name}-{place}" if self.size > 1 else self.name
            further = 0 if self.hosts else place
            yield Node(
                name,
                self.hosts[place] if self.hosts else self.host,
                self.port + further,
                self.route_port + further,
                self.leaf_port + further,
                self.monitor_port + further,
            )

    @property
    def business(self) -> tuple[Account, ...]:
        """Return the accounts that may have streams."""
        return tuple(account for account in self.accounts if not account.is_system)

    @property
    def system(self) -> Account | None:
        """Return the system account."""
        return next((account for account in self.accounts if account.is_system), None)

    def account(self, name: str) -> Account | None:
        """Return the account of this name."""
        return next((account for account in self.accounts if account.name == name), None)

    def domain_of(self, account: str) -> str:
        """Return the JetStream domain of an account: the first one has the site's, others their own."""
        if not self.business or account == self.business[0].name:
            return self.domain
        return f"{self.domain}-{account.lower()}"

    def client_urls(self, host: str = "") -> tuple[str, ...]:
        """Return the client URLs."""
        scheme = "tls" if self.tls else "nats"
        return tuple(f"{scheme}://{host or node.host}:{node.port}" for node in self.nodes)

    def leaf_urls(self, host: str = "") -> tuple[str, ...]:
        """Return the leaf node URLs."""
        scheme = "tls" if self.tls else "nats"
        return tuple(f"{scheme}://{host or node.host}:{node.leaf_port}" for node in self.nodes)


@dataclass(frozen=True)
class Topology:
    """All sites of one file."""

    sites: tuple[Site, ...]
    warnings: tuple[str, ...] = ()

    def site(self, name: str) -> Site:
        """Return the site of this name, which exists."""
        return next(site for site in self.sites if site.name == name)

    @property
    def engines(self) -> dict[str, tuple[Site, ...]]:
        """Return the sites of each engine, which is named after its own site."""
        found: dict[str, tuple[Site, ...]] = {}
        for site in self.sites:
            found[site.engine] = (*found.get(site.engine, ()), site)
        return found
