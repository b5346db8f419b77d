"""A connection to a JetStream: requests to its API, answers in pages, and refusals in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.cli.connection import ConnectionSettings
from headwater.errors import ApiError, Error
from headwater.model.times import SECOND, format_duration
from headwater.wire.progress_json import REQUESTED_BY

Json = dict[str, Any]

_PROGRESS = {REQUESTED_BY: "1"}
_WITH_UPSTREAMS = ("STREAM.INFO.", "STREAM.LIST")
# What to do about a refusal, by its number; the server's own words stand before it.
_ADVICE = {
    10008: "try again in a moment",
    10014: "`headwater consumer ls STREAM` lists those there are",
    10039: "enable JetStream for this account in the server's configuration",
    10058: "change it with `headwater stream edit`, or choose another name",
    10059: "`headwater stream ls` lists those there are; --js-domain looks in another domain",
    10065: "`headwater stream find --subject SUBJECT` shows which",
    10076: "start nats-server with --js, or name the domain that has it with --js-domain",
    10130: "remove it first, or restore under another name with --config",
    10148: "change it with `headwater consumer edit`, or choose another name",
}


class CommandRefusedError(ApiError):
    """An error that the JetStream API answered, with what to do about it."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__("", code, err_code, description)
        if advice := _ADVICE.get(err_code):
            self.args = (f"{description} ({err_code}): {advice}",)


class UnreachableError(Error):
    """Nobody answers: no server, no JetStream, or not in time."""

    retryable = True


class Session:
    """A connected client of one JetStream API."""

    def __init__(self, client: Client, connection: ConnectionSettings) -> None:
        self.nats = client
        self.connection = connection
        self.prefix = connection.prefix
        self.timeout = connection.timeout

    def subject(self, endpoint: str) -> str:
        """Return the subject of an endpoint such as `STREAM.INFO.ORDERS`."""
        if any(letter.isspace() for letter in endpoint):
            raise Error(f"a name cannot contain spaces: {endpoint.split('.', 2)[-1]!r}")
        return f"{self.prefix}.{endpoint}"

    async def request(
        self, endpoint: str, body: Mapping[str, Any] | None = None, *, wait: float | None = None
    ) -> Json:
        """Return the API's answer; a refusal is raised."""
        payload = b"" if body is None else msgspec.json.encode(body)
        # Other servers do not know the header, and answer as ever.
        headers = _PROGRESS if endpoint.startswith(_WITH_UPSTREAMS) else None
        message = await self.ask(self.subject(endpoint), payload, headers=headers, wait=wait)
        return answer_of(message.data, endpoint)

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        wait: float | None = None,
    ) -> Msg:
        """Return the first answer to a request on a full subject."""
        wait = wait or self.timeout
        try:
            answer = await self.nats.request(subject, payload, timeout=wait, headers=headers)
            require_wanted()
            return answer
        except nats.errors.NoRespondersError:
            raise UnreachableError(
                f"nobody answers on {subject}: name the domain with --js-domain, or enable JetStream there"
            ) from None
        except nats.errors.TimeoutError:
            waited = format_duration(int(wait * SECOND))
            raise UnreachableError(
                f"no answer on {subject} within {waited}: wait longer with --timeout, or look at the server"
            ) from None
        except nats.errors.Error as error:
            raise UnreachableError(f"the connection broke: {plain(error)}; try again") from None

    async def pages(self, endpoint: str, key: str, body: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the items of all pages of a list."""
        return [item async for page in self.each_page(endpoint, body) for item in page.get(key) or ()]

    async def each_page(self, endpoint: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[Json]:
        """Yield the pages of a list until the offset reaches the total."""
        offset = 0
        while True:
            page = await self.request(endpoint, {**(body or {}), "offset": offset})
            yield page
            limit = int(page.get("limit") or 0)
            offset = int(page.get("offset") or 0) + limit
            if not limit or offset >= int(page.get("total") or 0):
                return

    async def stream_names(self, subject: str = "") -> list[str]:
        """Return the names of all streams, or of those that take a subject."""
        return await self.pages("STREAM.NAMES", "streams", {"subject": subject} if subject else None)

    async def stream_info(self, stream: str, **asked: Any) -> Json:
        """Return a stream's config and state."""
        return await self.request(f"STREAM.INFO.{stream}", asked or None)

    async def subject_counts(self, stream: str, subject: str = ">") -> dict[str, int]:
        """Return the subjects that a stream holds and how many messages of each."""
        counts: dict[str, int] = {}
        async for page in self.each_page(f"STREAM.INFO.{stream}", {"subjects_filter": subject}):
            counts |= page["state"].get("subjects") or {}
        return counts


def require_wanted() -> None:
    """Raise if the task was cancelled: Python 3.11 forgets a Ctrl-C that comes together with an answer."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def answer_of(data: bytes, endpoint: str) -> Json:
    """Return the JSON of an answer; a refusal is raised."""
    try:
        answer = msgspec.json.decode(data, type=Json)
    except msgspec.DecodeError:
        raise Error(f"the answer to {endpoint} is not JSON: something else than JetStream answers") from None
    if error := answer.get("error"):
        raise CommandRefusedError(
            int(error.get("code") or 0), int(error.get("err_code") or 0), str(error.get("description") or "")
        )
    return answer


@asynccontextmanager
async def connected(connection: ConnectionSettings) -> AsyncIterator[Session]:
    """Connect to the first server that takes us, and close the connection whatever happens."""
    options = connection.options()
    for server in options.pop("servers"):
        try:
            client = await _connect(server, options)
            break
        except (nats.errors.Error, OSError, ValueError, TimeoutError) as error:
            reason = error
    else:
        raise UnreachableError(_why_not(connection, reason)) from None
    try:
        yield Session(client, connection)
    finally:
        await client.close()


async def _connect(server: str, options: Mapping[str, Any]) -> Client:
    """Return a client that fails at once when it cannot connect, and comes back when it loses a server."""
    client = Client()
    connecting = True

    async def hear(error: Exception) -> None:
        # The client itself would go on trying for minutes; once connected, that is what we want.
        if connecting:
            raise error

    try:
        await client.connect(server, name="headwater", error_cb=hear, **options)
    except BaseException:
        await client.close()
        raise
    connecting = False
    return client


def plain(error: BaseException) -> str:
    """Return an error of the client in words without its prefix."""
    return str(error).removeprefix("nats: ").strip("'\"") or type(error).__name__


def _why_not(connection: ConnectionSettings, error: Exception) -> str:
    """Return why there is no connection, and what to do about it."""
    where = connection.address
    reason = plain(error)
    # A server that refuses us hangs up at once, and its word may be lost with the connection.
    hung_up = isinstance(error, ConnectionResetError | BrokenPipeError | nats.errors.UnexpectedEOF)
    if hung_up or "authorization" in reason.lower() or "authentication" in reason.lower():
        return f"{where} refuses who we are: give --user and --password, --creds or --nkey, or a --context"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer: correct --server, or wait longer with --timeout"
    if isinstance(error, OSError):
        reason = (error.strerror or reason).lower()
        if "connect call failed" in reason or "refused" in reason:
            reason = "nothing listens there"
    advice = "start one with `headwater serve --store DIR`, or name another with --server"
    return f"cannot connect to {where}: {reason}; {advice}"


async def flushed(client: Client) -> None:
    """Return once the server has read all that the client has sent so far."""
    # The PING of a flush leaves before what the client holds back; only a second one speaks for that.
    await client.flush()
    await client.flush()
