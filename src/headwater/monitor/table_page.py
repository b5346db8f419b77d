"""The /table page: the data files of a stream's table, some at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.model.times import format_time
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState
from headwater.stream.stream import Stream
from headwater.table.compaction import FULL, CompactionSettings
from headwater.table.datafile import DataFile
from headwater.web.page_server import Answer, Query

MOST_FILES = 1000
"""How many files one answer lists at the most."""
USUAL_FILES = 100
_FULL_BYTES = CompactionSettings().target_file_bytes * FULL
_FULL_ROWS = CompactionSettings().target_file_rows * FULL


class TablePage:
    """Answers for the streams of all accounts that are served, without reading a disk."""

    def __init__(self, status: ServingState) -> None:
        self._status = status

    async def page(self, query: Query) -> Answer:
        """Answer the sizes of the table of one `stream`, and `limit` of its files from `offset` on.

        The time at which a stream was `created`, or its `account`, tells streams of the same name apart.
        """
        name = query.get("stream", "")
        found = self._find(name, query.get("account", ""), query.get("created", ""))
        if found is None:
            return _answer(404, {"error": f"there is no stream {name!r} that is open"})
        account, stream = found
        offset = bounded(query, "offset", 0, 1 << 62)
        limit = bounded(query, "limit", USUAL_FILES, MOST_FILES)
        return _answer(200, table_of(account.account, stream, offset, limit))

    def _find(self, name: str, account: str, created: str) -> tuple[ServedAccount, Stream] | None:
        """Return a stream by its name; accounts may have streams of the same name, made at other times."""
        for served in self._status.served:
            stream = served.domain.find(name) if account in ("", served.account) else None
            if stream is not None and created in ("", format_time(stream.created_ns)):
                return served, stream
        return None


def table_of(account: str, stream: Stream, offset: int, limit: int) -> dict[str, Any]:
    """Return the sizes of a table and some of its files, the newest first."""
    sizes = stream.sizes
    files = sizes.files
    some = files[::-1][offset : offset + limit]
    return {
        "account": account,
        "stream": stream.name,
        "version": sizes.table_version,
        "through": files[-1].last_seq if files else 0,
        "last_seq": stream.reading.last_seq,
        "files": len(files),
        "bytes": sizes.table_bytes,
        "unfolded": sizes.unfolded_messages,
        "log_bytes": sizes.log_bytes,
        "offset": offset,
        "listed": [_file(stream, file) for file in some],
    }


def _file(stream: Stream, file: DataFile) -> dict[str, Any]:
    live = min(stream.reading.live_between(file.first_seq, file.last_seq), file.rows)
    return {
        "path": file.path,
        "first_seq": file.first_seq,
        "last_seq": file.last_seq,
        "messages": live,
        "removed": file.rows - live,
        "bytes": file.size_bytes,
        "first_ts": file.first_ts,
        "last_ts": file.last_ts,
        "kind": kind_of(file),
    }


def kind_of(file: DataFile) -> str:
    """Return `linked` for a file of a source's origin, else whether it is `full` or `small`."""
    if file.copied is not None:
        return "linked"
    return "full" if file.size_bytes >= _FULL_BYTES or file.rows >= _FULL_ROWS else "small"


def bounded(query: Query, name: str, usual: int, most: int) -> int:
    """Return a whole number of the query, at most so much; what is no number counts as missing."""
    text = query.get(name, "")
    return min(int(text[:20]), most) if text.isascii() and text.isdigit() else usual


def _answer(status: int, body: Any) -> Answer:
    return status, "application/json", msgspec.json.encode(body) + b"\n"
