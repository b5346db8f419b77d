"""A client of one site's JetStream API, connected as the engine's user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import Advice, JetStreamApi, UnreachableError, connected_client
from headwater.site.topology import Account, Site

ADVICE = Advice(
    no_responders="the engine does not run, or serves another domain",
    timeout="see the engine's log",
    not_admitted="see the site's nats-server.conf",
    unanswered="see the nats-server's log",
    unreachable="start the sites with `headwater site up`",
    by_error={10074: "name a journal of the site that keeps more copies, or set its max_replicas"},
)


@asynccontextmanager
async def api_client(site: Site, account: Account, seed: Path) -> AsyncIterator[JetStreamApi]:
    """Connect to a site as the engine's user of an account."""
    connection = _connection(site, account, seed)
    client = await connected_client(connection, ADVICE)
    try:
        yield JetStreamApi(client, connection.prefix, connection.timeout, ADVICE)
    finally:
        await client.close()


def _connection(site: Site, account: Account, seed: Path) -> ConnectionSettings:
    if site.operator is None and not seed.exists():
        raise UnreachableError(f"{site.name} was never started here: run `headwater site up`")
    creds = str(next(user.creds for user in account.users if user.creds)) if site.operator else ""
    tls = site.tls
    return ConnectionSettings(
        server=",".join(site.client_urls()),
        creds=creds,
        nkey="" if creds else str(seed),
        tls_ca=str(tls.ca) if tls else "",
        tls_cert=str(tls.cert) if tls and tls.verify else "",
        tls_key=str(tls.key) if tls and tls.verify else "",
        domain=site.domain_of(account.name),
    )
