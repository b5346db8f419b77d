"""From where to where a store is copied: directories, buckets and journals, opened from their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headwater.journal.head_journal import HeadJournal, MissingJournalError
from headwater.journal.journal_copy import JournalCopy
from headwater.journal.opened_head import await_journal
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.settings import Settings
from headwater.store.copy_source import (
    CopyError,
    StoreContents,
    read_copy,
    read_directory,
    read_head,
    require_unserved,
)
from headwater.store.journal_target import JournalTarget
from headwater.store.journaled_contents import for_journal, read_journal
from headwater.store.store_copy import BucketTarget, CopyTarget, DirectoryTarget


@dataclass(frozen=True)
class CopyOptions:
    """What the caller asks for; each place is a directory or the address of a bucket."""

    source: str
    target: str
    endpoint: str | None = None
    region: str | None = None
    from_journal: str = ""
    """Where the head of the source is, if it is not with its tables."""
    to_journal: str = ""
    journal_creds: Path | None = None
    journal_lenient: bool = False
    tables_stay: bool = False
    dry_run: bool = False

    def bucket(self, place: str) -> Bucket | None:
        """Return the bucket of an address, None for a directory."""
        if "://" not in place:
            return None
        return Bucket(BucketAddress(place.rstrip("/"), self.endpoint, self.region))

    def journal(self, address: str) -> Settings:
        """Return the settings that name a journal; the tables are where the head says."""
        return Settings(
            journal=address,
            journal_creds=self.journal_creds,
            journal_lenient=self.journal_lenient,
            tables="file:///unused",
            tables_endpoint=self.endpoint,
            tables_region=self.region,
        )


@dataclass(frozen=True)
class CopyRoute:
    """A store and the place that it is copied to, which is usable."""

    contents: StoreContents
    target: CopyTarget | None
    """None in a dry run into a journal."""


@contextmanager
def opened_route(options: CopyOptions) -> Iterator[CopyRoute]:
    """Open both ends for the length of a block; nothing is written to the target yet.

    The caller has the lock of a source that is a directory.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="headwater-copy-")))
        origin, destination = options.bucket(options.source), options.bucket(options.target)
        _require_places(options, origin, destination)
        contents = _contents(options, origin, destination, scratch)
        if options.to_journal:
            assert destination is not None
            yield _to_journal(options, contents, destination, scratch, stack)
            return
        target: CopyTarget
        if destination is not None:
            target = BucketTarget(destination)
        else:
            stays = origin if options.tables_stay and not options.from_journal else None
            target = DirectoryTarget(Path(options.target), stays)
        target.require_usable(contents.store_id)
        yield CopyRoute(contents, target)


def _require_places(options: CopyOptions, origin: Bucket | None, destination: Bucket | None) -> None:
    if options.from_journal and origin is None:
        raise CopyError("--from-journal requires the bucket with the tables as source")
    if options.to_journal and destination is None:
        raise CopyError("--to-journal requires a bucket for the tables as target")
    if options.to_journal and options.tables_stay:
        return
    if options.tables_stay and (origin is None or destination is not None):
        raise CopyError(
            "--tables-stay requires a bucket as source and a directory as target, or --to-journal"
        )
    if options.to_journal and _is_below(options.to_journal, options.target):
        raise CopyError(
            f"the journal must not be below {options.target}, where the tables are: choose another"
        )


def _is_below(address: str, other: str) -> bool:
    return f"{address.rstrip('/')}/".startswith(f"{other.rstrip('/')}/")


def _contents(
    options: CopyOptions, origin: Bucket | None, destination: Bucket | None, scratch: Path
) -> StoreContents:
    if options.from_journal:
        assert origin is not None
        folder = scratch / "source"
        folder.mkdir()
        settings = options.journal(options.from_journal)
        return read_journal(settings, origin, folder, tables_stay=options.tables_stay)
    if origin is None:
        if options.tables_stay:
            assert destination is not None
            return read_head(Path(options.source), destination.location)
        return read_directory(Path(options.source))
    contents = read_copy(origin)
    if options.tables_stay:
        if options.to_journal and _location(origin) != _location(destination):
            raise CopyError("--tables-stay requires the same bucket as source and target")
        require_unserved(origin)
        contents = contents.without_tables()
    return contents


def _location(bucket: Bucket | None) -> str:
    return bucket.location.url if bucket is not None else ""


def _to_journal(
    options: CopyOptions, contents: StoreContents, tables: Bucket, scratch: Path, stack: ExitStack
) -> CopyRoute:
    merged, rebuilt = scratch / "databases", scratch / "rebuilt"
    merged.mkdir()
    rebuilt.mkdir()
    wanted = for_journal(contents, tables, merged)
    place = None if options.tables_stay else BucketTarget(tables)
    if place is not None:
        place.require_usable(contents.store_id)
    journal = _opened_journal(options)
    if journal is None:
        return CopyRoute(wanted.contents, None)
    stack.callback(journal.close)
    target = JournalTarget(JournalCopy(journal), place, wanted.epoch, rebuilt)
    target.require_usable(contents.store_id)
    return CopyRoute(wanted.contents, None if options.dry_run else target)


def _opened_journal(options: CopyOptions) -> HeadJournal | None:
    """Return the journal to write to; None if a dry run would have to create it."""
    try:
        return await_journal(options.journal(options.to_journal), reads_only=options.dry_run)
    except MissingJournalError:
        return None
