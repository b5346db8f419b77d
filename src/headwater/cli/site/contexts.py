"""Contexts for the sites of a file, so that `--context hub` connects to the hub. Other contexts are kept."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.cli.contexts import ContextFolder, SavedContext
from headwater.errors import Error
from headwater.site.topology import Account, Site, Topology, User

MARK = "headwater site"
"""Prefix of the descriptions of contexts that this module writes."""


def contexts_of(topology: Topology, prefix: str = "") -> Iterator[tuple[str, SavedContext]]:
    """Yield a context for each account with a login; the first one has the site's name."""
    for site in topology.sites:
        first = True
        for account in (*site.business, *filter(None, (site.system,))):
            user = next((user for user in account.users if user.can_log_in), None)
            if user is None:
                continue
            own = first and not account.is_system
            name = site.name if own else f"{site.name}-{account.name.lower()}"
            first = first and not own
            yield prefix + name, _context(site, account, user)


def write_contexts(
    folder: ContextFolder, topology: Topology, prefix: str = ""
) -> tuple[list[str], list[str]]:
    """Write the contexts; return the names written, and the names that exist and are not ours."""
    written: list[str] = []
    foreign: list[str] = []
    for name, context in contexts_of(topology, prefix):
        if folder.known(name) and not _is_ours(folder, name):
            foreign.append(name)
            continue
        if folder.known(name):
            folder.delete(name)
        folder.save(name, context)
        written.append(name)
    return written, foreign


def remove_contexts(folder: ContextFolder, topology: Topology, prefix: str = "") -> list[str]:
    """Remove the contexts that were written for these sites; return their names."""
    ours = [
        name for name, _ in contexts_of(topology, prefix) if folder.known(name) and _is_ours(folder, name)
    ]
    for name in ours:
        folder.delete(name)
    return ours


def _is_ours(folder: ContextFolder, name: str) -> bool:
    try:
        return folder.load(name).description.startswith(MARK)
    except Error:
        return False


def _context(site: Site, account: Account, user: User) -> SavedContext:
    tls = site.tls
    return SavedContext(
        description=f"{MARK} {site.name}, account {account.name}",
        url=",".join(site.client_urls()),
        creds=str(user.creds or ""),
        nkey=str(user.seed or ""),
        jetstream_domain="" if account.is_system else site.domain_of(account.name),
        ca=str(tls.ca) if tls else "",
        cert=str(tls.cert) if tls and tls.verify else "",
        key=str(tls.key) if tls and tls.verify else "",
        user=user.name if user.secret else "",
        password=user.secret,
    )
