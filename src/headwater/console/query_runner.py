"""Runs SQL over the tables of a store in processes of their own, few at a time and for a bounded time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwater.console.query_guard import BUCKETS, QueryRefusedError
from headwater.errors import SettingsError

MOST_OUTPUT_BYTES = 32 << 20
AT_ONCE = 2


@dataclass(frozen=True)
class QueryBounds:
    """What one query may use."""

    rows: int = 1000
    seconds: float = 20.0
    memory_bytes: int = 512 << 20


@dataclass(frozen=True)
class QueriedStream:
    """How much of a stream a query has seen."""

    stream: str
    through: int
    """The last sequence that it could see."""
    last_seq: int | None
    """The last sequence of the stream; None if it is not known."""
    why: str
    """Why messages may be missing that are not in the table yet; empty if none are."""


@dataclass(frozen=True)
class QueryAnswer:
    """Columns and rows of a query."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """Whether there are more rows than are shown."""
    reads: tuple[QueriedStream, ...] = ()
    """The streams that the query read."""


class QueryRunner:
    """Runs queries over the streams below one folder of a store or a bucket."""

    def __init__(self, store: str, account: str = "", bounds: QueryBounds | None = None) -> None:
        self.store = store
        self._account = account
        self.bounds = bounds or QueryBounds()
        self._gate = asyncio.Semaphore(AT_ONCE)
        if not store.startswith(BUCKETS) and not Path(store).is_dir():
            raise SettingsError(f"there is no store in {store}")
        if find_spec("duckdb") is None:
            raise SettingsError("queries need DuckDB: pip install 'headwater[all]', or start without --store")

    async def run(
        self, sql: str, streams: Sequence[str] = (), heads: Sequence[Mapping[str, Any]] = ()
    ) -> QueryAnswer:
        """Run SQL over the streams of the store; in a bucket, over those that a site lists.

        `heads` are the streams of sites, from which messages are read that are not in a table yet.
        Return the answer; `QueryRefusedError` carries what DuckDB or a bound says.
        """
        if self._gate.locked():
            raise QueryRefusedError(f"{AT_ONCE} queries are running: try again in some seconds")
        async with self._gate:
            return await self._run(sql, streams, heads)

    async def _run(self, sql: str, streams: Sequence[str], heads: Sequence[Mapping[str, Any]]) -> QueryAnswer:
        bounds = self.bounds
        asked = {
            "sql": sql,
            "store": self.store,
            "account": self._account,
            "streams": list(streams),
            "heads": list(heads),
            "rows": bounds.rows,
            "seconds": bounds.seconds,
            "memory_bytes": bounds.memory_bytes,
        }
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headwater.console.query_child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=child_environment(os.environ, self.store),
        )
        try:
            async with asyncio.timeout(bounds.seconds):
                output = await _exchange(child, json.dumps(asked).encode())
        except TimeoutError:
            raise QueryRefusedError(
                f"the query took longer than {bounds.seconds:g} seconds: ask for less, or use headwater.scan"
            ) from None
        finally:
            await _end(child)
        return _answer(output)


def child_environment(environ: Mapping[str, str], store: str) -> dict[str, str]:
    """Return what the process of a query may know: nothing of credentials, unless it reads a bucket."""
    names = {"PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "VIRTUAL_ENV"}
    prefixes = ("AWS_", "GOOGLE_", "AZURE_") if store.startswith(BUCKETS) else ()
    return {
        name: value
        for name, value in environ.items()
        if name in names or (prefixes and name.startswith(prefixes))
    }


async def _exchange(child: asyncio.subprocess.Process, request: bytes) -> bytes:
    """Send the request and return the output, which is refused when it is too long."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(request)
        await child.stdin.drain()
        child.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it ended before it read everything; what it wrote says why
    output = b""
    while part := await child.stdout.read(1 << 16):
        output += part
        if len(output) > MOST_OUTPUT_BYTES:
            raise QueryRefusedError("the result is too large: select fewer columns or rows")
    return output


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass
    await child.wait()


def _answer(output: bytes) -> QueryAnswer:
    try:
        answer = json.loads(output)
    except ValueError:
        raise QueryRefusedError(
            "the query ended without a result: it needs too much memory or time"
        ) from None
    if error := answer.get("error"):
        raise QueryRefusedError(str(error))
    return QueryAnswer(
        tuple(answer["columns"]),
        tuple(answer["types"]),
        tuple(tuple(row) for row in answer["rows"]),
        bool(answer["is_cut"]),
        tuple(QueriedStream(**read) for read in answer.get("reads", ())),
    )
