"""The head of a store in a journal: opened from the settings, taken over, and shipped until it is closed.

A file `journal` in the directory names the journal. A directory with streams and without that file is another
store, and is never overwritten. With the file, the directory is a cache.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headwater.bus.options import ConnectOptions
from headwater.disk import RealDisk
from headwater.errors import FencedError, SettingsError
from headwater.journal.head_journal import HeadJournal, JournalError, JournalPeer
from headwater.journal.jetstream_journal import JetStreamJournal, JetStreamPlace
from headwater.journal.journaled_database import JournaledDatabase
from headwater.journal.journaled_disk import JournaledDisk
from headwater.journal.object_journal import ObjectJournal
from headwater.journal.rebuilding import Rebuilding
from headwater.journal.shipper import Shipper
from headwater.journal.takeover import Takeover
from headwater.model.sealed import seal, unseal
from headwater.objects.address import SCHEMES, BucketAddress, StaticCredentials
from headwater.objects.bucket import Bucket
from headwater.settings import Settings

logger = logging.getLogger(__name__)

MARK = "journal"
VERSION = 1
CATALOG = "catalog.db"
DEFAULT_NAME = "HEADWATER"
REQUEST_RETRY_S = 2.0
PATIENCE_S = 20.0
"""How long a starting engine tries a journal that does not answer."""
RETRY_S = 0.5
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class JournalMark(msgspec.Struct, frozen=True):
    """The journal that a directory is a cache of."""

    id: str
    address: str


class OpenedHead:
    """A store's head that this engine owns."""

    def __init__(self, disk: JournaledDisk, shipper: Shipper, journal: HeadJournal, epoch: int) -> None:
        self.disk = disk
        self._shipper = shipper
        self._journal = journal
        self.epoch = epoch

    @property
    def copies(self) -> int:
        """Return how many copies the journal keeps."""
        return self._journal.copies

    @property
    def peers(self) -> list[JournalPeer]:
        """Return the servers that keep copies of the journal, besides the leader."""
        return self._shipper.peers

    @property
    def unshipped_bytes(self) -> int:
        """Return the size of the changes that the journal does not have yet."""
        return self._shipper.unshipped_bytes

    @property
    def journal_bytes(self) -> int:
        """Return the size of the records that the journal keeps."""
        return self._shipper.journal_bytes

    @property
    def is_failing(self) -> bool:
        """Return whether the last append to the journal failed."""
        return self._shipper.is_failing

    def is_leased(self) -> bool:
        """Return whether no other engine can have taken over the store by now."""
        return self._shipper.is_leased

    def database(self, path: Path) -> JournaledDatabase:
        """Return how a SQLite file of the store is shipped."""
        return JournaledDatabase(self.disk, path)

    def close(self) -> None:
        """Ship what is left, and let another engine take over."""
        self._shipper.close()
        self._journal.close()


def require_no_mark(store: Path) -> None:
    """Refuse a directory that is a cache of a journal, because this engine does not use that journal."""
    mark = read_mark(store)
    if mark is not None:
        raise SettingsError(f"store: {store} is a cache of the journal {mark.address}: pass it as --journal")


def read_mark(store: Path) -> JournalMark | None:
    """Return which journal a directory is a cache of, None if it is a store of its own."""
    path = store / MARK
    return unseal(path.read_bytes(), JournalMark, VERSION) if path.exists() else None


def open_journal(settings: Settings, *, reads_only: bool = False) -> HeadJournal:
    """Return the journal that the settings name, once it has passed its tests.

    With `reads_only` it is not tested, and not created.
    """
    assert settings.journal is not None
    if settings.journal.partition("://")[0] in SCHEMES:
        key, secret = settings.tables_access_key_id, settings.tables_secret_access_key
        address = BucketAddress(
            settings.journal.rstrip("/"),
            settings.tables_endpoint,
            settings.tables_region,
            StaticCredentials(key, secret, settings.tables_session_token) if key and secret else None,
        )
        return ObjectJournal(Bucket(address, retry_s=REQUEST_RETRY_S), tested=not reads_only)
    servers, name = servers_of(settings.journal)
    options = ConnectOptions(
        servers=servers,
        name="headwater journal",
        creds_file=str(settings.journal_creds or ""),
        tls_ca=str(settings.tls_ca or ""),
        tls_cert=str(settings.tls_cert or ""),
        tls_key=str(settings.tls_key or ""),
    )
    is_known = settings.store is not None and read_mark(settings.store) is not None
    lenient = settings.journal_lenient or reads_only
    return JetStreamJournal(JetStreamPlace(options, name, lenient, is_known, reads_only))


def await_journal(settings: Settings, *, reads_only: bool = False) -> HeadJournal:
    """Return the journal as `open_journal` does; one that does not answer is tried for a while."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return open_journal(settings, reads_only=reads_only)
        except JournalError as error:
            if error.is_login or time.monotonic() > until:
                raise
            time.sleep(RETRY_S)


def servers_of(address: str) -> tuple[tuple[str, ...], str]:
    """Return the servers of `nats://[user:password@]host,host,host/NAME`, and the name of the journal."""
    scheme, _, rest = address.partition("://")
    hosts, _, name = rest.partition("/")
    login, at, hosts = hosts.rpartition("@")
    if name and not _NAME.fullmatch(name):
        raise SettingsError(f"journal: {name!r} is not a valid journal name: use letters, digits, - and _")
    return tuple(f"{scheme}://{login}{at}{host}" for host in hosts.split(",")), name or DEFAULT_NAME


def open_head(
    settings: Settings,
    epoch: int,
    lose: Callable[[str], FencedError],
    on_owner: Callable[[str], None],
    is_over: Callable[[], bool],
) -> OpenedHead:
    """Return the head of a store once this engine owns it and the directory has all of it; blocking.

    Our epoch will be above `epoch`. If another engine takes over later, `lose` is called with the reason. A
    journal that does not answer is tried for a while; a standby tries it until `is_over`. Credentials that
    are refused at first are wrong. Later the servers may just not know them yet.
    """
    until = time.monotonic() + PATIENCE_S
    _require_cache(settings)
    is_first = True
    while True:
        try:
            return _try_open(settings, epoch, lose, on_owner if settings.waits else None, is_over)
        except JournalError as error:
            is_wrong = is_first and error.is_login
            if is_over() or is_wrong or (time.monotonic() > until and not settings.waits):
                raise
            is_first = False
            logger.warning("%s; trying again", error)
            time.sleep(RETRY_S)


def _require_cache(settings: Settings) -> None:
    """Refuse a directory with streams that did not come from a journal: they would be overwritten."""
    store = settings.store
    assert store is not None
    if read_mark(store) is None and Rebuilding(store).leftovers():
        raise SettingsError(
            f"store: {store} contains another store: a journal needs an empty directory at first"
        )


def _try_open(
    settings: Settings,
    epoch: int,
    lose: Callable[[str], FencedError],
    on_owner: Callable[[str], None] | None,
    is_over: Callable[[], bool],
) -> OpenedHead:
    store = settings.store
    assert store is not None
    journal = open_journal(settings)

    def mark(journal_id: str) -> None:
        content = seal(JournalMark(journal_id, journal.address), VERSION)
        RealDisk().write_atomic(store / MARK, content)

    try:
        found = read_mark(store)
        taken = Takeover(journal, store, epoch, found.id if found else "", mark, is_over).run(on_owner)
        contents = taken.rebuilding.contents
        shipper = Shipper(journal, taken.appender, contents, taken.records, taken.keep, lose)
        disk = JournaledDisk(store, shipper, taken.rebuilding.lengths(contents.names()))
    except BaseException:
        journal.close()
        raise
    shipper.start(disk.rewrite)
    return OpenedHead(disk, shipper, journal, taken.appender.epoch)
