"""The bulk writes of one stream: parts are staged as files, and a commit stores all of them as one change.

1. Each part is checked and written to a staged file as it arrives.
2. A commit names the query, the batch and the finished parts. If the stream has this batch of the query, it
   answers so and nothing changes.
3. The log gets one batch: the record of the query, with the names, the sums and the message ids of the
   files. Messages whose id is known are left out of the files before. Where the rules of the stream need each
   message, the batch has the messages themselves instead, checked as published ones.

A crash before 3 leaves staged files, which the next open removes. After it, all messages and the record are
there, and a repeated commit is answered as done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from headwater.errors import ApiError, Error, api_error
from headwater.model import written
from headwater.model.adopted import Adopted
from headwater.model.subject import Filter
from headwater.model.written import Written
from headwater.stream.bulk.file_ids import IdentifiedFile, identified
from headwater.stream.bulk.staged_part import BulkRefusedError, StagedFile, StagedPart
from headwater.stream.committer import Committer
from headwater.stream.ledger import Ledger
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.publishing.atomic_batch import BatchMessage
from headwater.stream.publishing.dedupe import FileIds
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.replica.replica import StreamReplica, adopts_files
from headwater.stream.store import Store
from headwater.table.staged import read_staged
from headwater.wire.bulk_rows import BulkRows

MOST_RULED_MESSAGES = 50_000
MOST_RULED_BYTES = 64 << 20
"""The most that one batch may have where the rules need each message: they are checked in one turn."""
MOST_SUBJECTS = 500_000
"""How many subjects the parts of a batch may have: they enter the index of the stream in one turn."""
MOST_NOTED_BYTES = 128 << 20
"""How many bytes of subjects and ids a batch may have: they are in one batch of the log."""
MOST_IDS = 4_000_000
"""The most messages of a batch with ids that a duplicate window must remember: they are held in memory."""
SMALLER = (
    "write smaller batches: limit those of a streaming query at its source (for a stream, by option "
    "maxMessagesPerTrigger), and write a DataFrame in slices, each with its own batchId; or set option mode "
    "to publish"
)
"""What to do about a batch that is too large."""
MOST_REPEATS = 10
"""How often a batch is checked again because others have stored some of its ids meanwhile."""


class StreamBulk:
    """Takes the bulk writes of one stream."""

    def __init__(
        self,
        store: Store,
        acceptor: Acceptor,
        committer: Committer,
        publishing: StreamPublishing,
        replica: StreamReplica,
    ) -> None:
        self._store = store
        self._acceptor = acceptor
        self._committer = committer
        self._publishing = publishing
        self._replica = replica
        self._committing = asyncio.Lock()
        """Held by the commit in progress: a repeated one waits for its outcome."""
        self._staged: set[str] = set()
        """The names of finished parts that a commit may still store."""
        self._named: set[str] = set()
        """Those that a change of the log named: while the disk fails, it may still have a refused one."""
        self._unwanted: set[str] = set()
        """Finished parts that no commit will name, to be removed."""

    def require_writable(self) -> None:
        """Raise if clients cannot write to the stream."""
        if self._store.config.mirror is not None:
            raise api_error("mirror_with_subjects")
        self._replica.require_open()

    @property
    def is_ruled(self) -> bool:
        """Return whether the rules of the stream need each message."""
        config = self._store.config
        return not adopts_files(config) or config.subject_transform is not None

    @property
    def free_bytes(self) -> int | None:
        """Return what the account may still store; None without a limit."""
        return self._store.services.free_bytes(self._store.config.storage)

    def has(self, name: str, batch: int) -> bool:
        """Return whether the batch of a query is durably stored."""
        return self.last(name) >= batch

    def last(self, name: str) -> int:
        """Return the last batch of a query that is durably stored, -1 if none is."""
        known = Written.decode(self._replica.durable_cursor(name))
        return known.batch if known is not None else -1

    @property
    def records(self) -> dict[str, bytes]:
        """Return the durable record of each query, by its name."""
        return {name: each for name, each in self._store.durable_upstreams.items() if written.is_record(name)}

    async def restore(self, records: Mapping[str, bytes]) -> None:
        """Take over the records of queries from an archive of the stream; refuse what is none."""
        known = written.checked(records)
        first = next(iter(known))
        await self._replica.pass_over(first, b"", known.pop(first), known)

    async def begin(self) -> StagedPart:
        """Return a new part."""
        self.require_writable()
        await self._remove_unwanted()
        return await self._store.on_thread(self._new_part)

    def _new_part(self) -> StagedPart:
        config, now_ns = self._store.config, self._store.services.clock.now_ns()
        return StagedPart(self._store.staging, config.subjects, self._replica.compression, now_ns)

    async def append(self, part: StagedPart, encoded: bytes, *, at_once: bool = False) -> None:
        """Add messages to a part, written to its file `at_once`; raise if one may not be in the stream."""
        await self._store.on_thread(lambda: part.append(BulkRows.decode(encoded), at_once=at_once))

    async def finish(self, part: StagedPart) -> StagedFile:
        """Return a part as a file once it would survive a power cut."""
        file = await self._store.on_thread(part.finish)
        self._staged.add(file.adopted.name)
        return file

    async def abandon(self, part: StagedPart) -> None:
        """Remove an unfinished part."""
        await self._store.on_thread(part.abandon)

    async def discard(self, files: Sequence[StagedFile]) -> None:
        """Remove finished parts that are not stored; from now on no commit can store them."""
        unwanted = self._staged.intersection(file.adopted.name for file in files)
        self._staged -= unwanted
        self._unwanted |= unwanted
        await self._remove_unwanted()

    async def _remove_unwanted(self) -> None:
        """Remove the parts that no commit will name, except those that the log has or may have."""
        for name in list(self._unwanted):
            in_doubt = name in self._named and self._committer.failure is not None
            if name in self._unwanted and not in_doubt and not self._replica.awaits(name):
                self._forget([name])
                await self._store.on_thread(_removing(self._store.staging.discard, name))

    def _forget(self, names: Iterable[str]) -> None:
        for known in (self._staged, self._named, self._unwanted):
            known.difference_update(names)

    async def commit(self, name: str, batch: int, files: Sequence[StagedFile]) -> int | None:
        """Store the messages of these files as the batch of a query; return how many, None if it was there.

        Returns once the messages and the record of the query would survive a power cut.
        """
        async with self._committing:
            self.require_writable()
            await self._committer.settled()
            expected = self._replica.cursor(name)
            known = Written.decode(expected)
            if known is not None and known.batch >= batch:
                return None
            self._check(files)
            if not files or self.is_ruled or any(file.is_ruled for file in files):
                return await self._store_messages(name, expected, batch, files)
            has_ids = any(file.has_ids for file in files)
            if has_ids and self._store.config.duplicate_window:
                return await self._adopt_once(name, expected, batch, files)
            ids = [FileIds.of_last(file.adopted.rows, file.last_id) for file in files] if has_ids else []
            return await self._adopt(name, expected, batch, [file.adopted for file in files], ids)

    def _check(self, files: Sequence[StagedFile]) -> None:
        """Raise if parts are gone, or the config, as it is now, does not allow their messages."""
        if not self._staged.issuperset(file.adopted.name for file in files):
            raise BulkRefusedError("the engine does not have all parts of this write any more")
        if (count := sum(len(file.adopted.subjects) for file in files)) > MOST_SUBJECTS:
            raise BulkRefusedError(
                f"the parts have {count} subjects, a batch may have {MOST_SUBJECTS}, counted in each part; "
                "write smaller batches, or fewer parts"
            )
        patterns = self._store.config.subjects
        filters = [Filter(subject) for subject in patterns]
        doubtful = [file for file in files if file.patterns != tuple(patterns)]
        for subject in {subject for file in doubtful for subject in file.adopted.subjects}:
            if not any(each.matches(subject) for each in filters):
                raise BulkRefusedError(f"the stream no longer has the subject {subject.decode()!r}")
        limit = self._acceptor.max_size
        if limit is not None and any(file.largest > limit for file in files):
            raise api_error("stream_message_exceeds_maximum")
        self._replica.require_room([file.adopted for file in files])

    async def _adopt(
        self, name: str, expected: bytes, batch: int, adopted: Sequence[Adopted], ids: Sequence[FileIds]
    ) -> int:
        count = sum(file.rows for file in adopted)
        size = sum(len(subject) for file in adopted for subject in file.subjects)
        if size + sum(len(each.ids.joined) for each in ids) > MOST_NOTED_BYTES:
            raise BulkRefusedError("the subjects and message ids are too long; write smaller batches")
        known = self._changes(name, batch, count)
        names = [file.name for file in adopted]
        self._named.update(names)
        await self._replica.adopt_files(name, expected, adopted, known, mirrored=False, ids=ids)
        self._forget(names)
        return count

    async def _adopt_once(self, name: str, expected: bytes, batch: int, files: Sequence[StagedFile]) -> int:
        """Adopt the files without the messages whose id the duplicate window knows."""
        if sum(file.adopted.rows for file in files) > MOST_IDS:
            raise BulkRefusedError(
                f"a batch with message ids may have {MOST_IDS} messages at most; {SMALLER}"
            )
        config = self._store.config
        for _ in range(MOST_REPEATS):
            ledger, before = self._store.ledger, self._store.ledger.dedupe.added
            is_known = ledger.dedupe.known(self._store.services.clock.now_ns())
            found = await self._store.on_thread(
                identified, self._store.staging, files, is_known, self._new_part
            )
            rewritten = [each.file for each in found if each.file not in files]
            self._staged.update(file.adopted.name for file in rewritten)
            try:
                self._check([each.file for each in found])
                if self._store.config is not config:
                    raise BulkRefusedError("the stream was changed during the commit; write the batch again")
                if self._store.ledger is ledger and not _overtaken(ledger, before, found):
                    return await self._adopt_identified(name, expected, batch, found)
            finally:
                await self.discard(rewritten)
        raise BulkRefusedError("messages with the same ids are being published; write the batch again")

    async def _adopt_identified(
        self, name: str, expected: bytes, batch: int, found: Sequence[IdentifiedFile]
    ) -> int:
        if not found:
            return await self._store_messages(name, expected, batch, [])
        adopted = [each.file.adopted for each in found]
        now_ns = self._store.services.clock.now_ns()
        return await self._adopt(name, expected, batch, adopted, [each.ids.since(now_ns) for each in found])

    async def _store_messages(
        self, name: str, expected: bytes, batch: int, files: Sequence[StagedFile]
    ) -> int:
        """Store the messages by the rules of publishing, all or none."""
        count = sum(file.adopted.rows for file in files)
        size = sum(file.adopted.payload_bytes for file in files)
        if count > MOST_RULED_MESSAGES or size > MOST_RULED_BYTES:
            raise BulkRefusedError(
                f"the rules of the stream need each message: a batch may have {MOST_RULED_MESSAGES} messages "
                f"and {MOST_RULED_BYTES >> 20} MiB at most, not {count} messages and {size} bytes; {SMALLER}"
            )
        messages = await self._store.on_thread(self._read, files)
        mapped = [self._acceptor.mapped(subject) for subject, _, _ in messages]
        await self._publishing.locate_older(mapped, [headers for _, headers, _ in messages])
        self.require_writable()
        if self._replica.cursor(name) != expected:
            raise Error("the state of the stream was rebuilt during the commit")
        stored = self._store_now(messages, self._changes(name, batch, count))
        self._committer.wake()
        await self._publishing.settled()
        await self.discard(files)
        return stored

    def _store_now(self, messages: Sequence[BatchMessage], known: dict[str, bytes]) -> int:
        try:
            return self._acceptor.store_bulk(messages, known)
        except ApiError:
            raise  # nothing has changed
        except Exception as error:
            # A part of the messages may be in the ledger: the stream rolls back to what is durable.
            self._committer.distrust(Error(f"the stream failed on a message: {type(error).__name__}"))
            self._committer.wake()
            raise

    def _changes(self, name: str, batch: int, count: int) -> dict[str, bytes]:
        known = self._store.ledger.upstreams
        record = Written(batch, written.next_time(known, self._store.services.clock.now_ns()), count)
        return written.changes(known, name, record)

    def _read(self, files: Sequence[StagedFile]) -> list[BatchMessage]:
        messages: list[BatchMessage] = []
        for file in files:
            for columns in read_staged(self._store.staging.open(file.adopted.name)):
                run = OfferedRun.of(columns)
                messages += zip(run.subjects, run.headers, run.datas, strict=True)
        return messages


def _overtaken(ledger: Ledger, before: int, files: Sequence[IdentifiedFile]) -> bool:
    """Return whether one of these ids was stored since so many ids were."""
    recent = ledger.dedupe.added_since(before)
    return any(file.ids.has(each) for each in recent for file in files)


def _removing(discard: Callable[[str], None], name: str) -> Callable[[], None]:
    def remove() -> None:
        try:
            discard(name)
        except (Error, OSError):
            pass  # the next open of the stream removes it

    return remove
