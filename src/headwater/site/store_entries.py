"""How a site's engines keep their streams: the keys of a site file for engines, journal and tables."""

from __future__ import annotations

from urllib.parse import urlsplit

from headwater.errors import Error, SettingsError
from headwater.journal.opened_head import servers_of
from headwater.objects.address import SCHEMES, BucketAddress
from headwater.site.document import Entry, optional
from headwater.site.topology import CLUSTER, NO_JOURNAL, SiteStore

STORE_KEYS = (
    *("engines", "journal", "journal_creds", "journal_lenient"),
    *("tables", "tables_endpoint", "tables_region", "max_replicas"),
)
MOST_ENGINES = 9
_NATS = ("nats", "tls")


def read_store(held: dict[str, Entry], *, nodes: int, is_seat: bool, has_operator: bool) -> SiteStore:
    """Return the store of a site with this many nodes; its engine may be that of another site."""
    said = {key: held[key] for key in STORE_KEYS if key in held}
    if is_seat and said:
        key, entry = next(iter(said.items()))
        raise entry.wrong(f"the engine of another site serves this one: set {key} there")
    journal = optional(said, "journal", _journal, "")
    if journal == CLUSTER and nodes == 1:
        raise said["journal"].wrong("a cluster that keeps the journal has three servers: set nodes: 3")
    if journal == CLUSTER and has_operator:
        raise said["journal"].wrong(
            "with an operator, the account of the journal is the operator's: use the nats:// address of a "
            "cluster that has one"
        )
    _check_journal_keys(said, journal)
    return SiteStore(
        engines=optional(said, "engines", _engines, 1),
        journal=journal,
        journal_creds=said["journal_creds"].existing() if "journal_creds" in said else None,
        journal_lenient=optional(said, "journal_lenient", Entry.truth, False),
        tables=optional(said, "tables", _bucket, ""),
        tables_endpoint=optional(said, "tables_endpoint", Entry.text, ""),
        tables_region=optional(said, "tables_region", Entry.text, ""),
        max_replicas=optional(said, "max_replicas", _replicas, 1),
    )


def _check_journal_keys(said: dict[str, Entry], journal: str) -> None:
    """Refuse keys that say something about a journal or tables which the site does not have."""
    is_external = journal.partition("://")[0] in _NATS
    for key in ("journal_creds", "journal_lenient"):
        if key in said and not is_external:
            raise said[key].wrong(f"{key} is for a journal with a nats:// address: set journal")
    for key in ("tables_endpoint", "tables_region"):
        if key in said and "tables" not in said:
            raise said[key].wrong(f"{key} is for tables in a bucket: set tables")


def _journal(entry: Entry) -> str:
    """Return `cluster`, `none`, or an address that an engine takes."""
    address = entry.text()
    scheme = urlsplit(address).scheme
    if address in (CLUSTER, NO_JOURNAL):
        return address
    if scheme in SCHEMES:
        return _bucket(entry)
    if scheme not in _NATS:
        raise entry.wrong(
            f"{_shown(address)!r} is no journal: use cluster, none, or an address that begins with nats://, "
            "tls://, s3://, gs://, az:// or file://"
        )
    try:
        servers, _ = servers_of(address)
    except SettingsError as error:
        raise entry.wrong(str(error)) from None
    if not all(urlsplit(server).hostname for server in servers):
        raise entry.wrong(f"{_shown(address)!r} names no server: write nats://HOST,HOST,HOST/NAME")
    return address


def _bucket(entry: Entry) -> str:
    """Return the address of a bucket; a folder must be absolute."""
    address = entry.text().rstrip("/")
    try:
        found = BucketAddress(address)
        if found.is_local and not found.local_path.is_absolute():
            raise SettingsError(f"{address!r} is no absolute path: write file:///FOLDER")
    except Error as error:
        raise entry.wrong(str(error)) from None
    return address


def _engines(entry: Entry) -> int:
    return entry.number(1, MOST_ENGINES)


def _replicas(entry: Entry) -> int:
    return entry.number(1, 5)


def _shown(address: str) -> str:
    """Return an address without what may be a secret."""
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
