"""A connected client of one JetStream API: requests, lists in pages, and errors in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import ApiError, Error
from headwater.model.times import SECOND, format_duration
from headwater.wire.progress_json import REQUESTED_BY

Json = dict[str, Any]

_PROGRESS = {REQUESTED_BY: "1"}
_WITH_UPSTREAMS = ("STREAM.INFO.", "STREAM.LIST")


@dataclass(frozen=True)
class Advice:
    """What to do about an error, in the caller's terms: flags, or arguments."""

    no_responders: str = "select a domain, or enable JetStream"
    timeout: str = "check the server, or pass a longer timeout"
    not_admitted: str = "pass user and password, token, creds or nkey"
    unanswered: str = "correct the address, or pass a longer timeout"
    unreachable: str = "start an engine with `headwater serve --store DIR`, or pass another address"
    by_error: Mapping[int, str] = field(default_factory=dict)
    """By the `err_code` of an API error."""


DEFAULT_ADVICE = Advice()


class RequestRefusedError(ApiError):
    """An error that the JetStream API answered, with what to do about it."""

    def __init__(self, code: int, err_code: int, description: str, advice: str = "") -> None:
        super().__init__("", code, err_code, description)
        if advice:
            self.args = (f"{description} ({err_code}): {advice}",)


class UnreachableError(Error):
    """No answer: no server, no JetStream, or a timeout."""

    retryable = True


class JetStreamApi:
    """A connected client of one JetStream API."""

    def __init__(
        self, client: Client, prefix: str, timeout: float = 5.0, advice: Advice = DEFAULT_ADVICE
    ) -> None:
        self.nats = client
        self.prefix = prefix
        self.timeout = timeout
        """Seconds to wait for an answer if the caller does not say how long."""
        self.advice = advice

    def subject(self, endpoint: str) -> str:
        """Return the subject of an endpoint such as `STREAM.INFO.ORDERS`."""
        if any(letter.isspace() for letter in endpoint):
            raise Error(f"a name cannot contain spaces: {endpoint.split('.', 2)[-1]!r}")
        return f"{self.prefix}.{endpoint}"

    async def request(
        self, endpoint: str, body: Mapping[str, Any] | None = None, *, wait: float | None = None
    ) -> Json:
        """Return the API's answer; an error of the API is raised."""
        payload = b"" if body is None else msgspec.json.encode(body)
        # Other servers ignore the header.
        headers = _PROGRESS if endpoint.startswith(_WITH_UPSTREAMS) else None
        message = await self.ask(self.subject(endpoint), payload, headers=headers, wait=wait)
        return answer_of(message.data, endpoint, self.advice)

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
            raise UnreachableError(f"no responders on {subject}: {self.advice.no_responders}") from None
        except nats.errors.TimeoutError:
            waited = format_duration(int(wait * SECOND))
            raise UnreachableError(f"no answer on {subject} within {waited}: {self.advice.timeout}") from None
        except nats.errors.Error as error:
            raise UnreachableError(f"connection lost: {plain(error)}; try again") from None

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
        """Return the names of all streams, or of those that listen on a subject."""
        return await self.pages("STREAM.NAMES", "streams", {"subject": subject} if subject else None)

    async def stream_info(self, stream: str, **asked: Any) -> Json:
        """Return a stream's config and state."""
        return await self.request(f"STREAM.INFO.{stream}", asked or None)

    async def subject_counts(self, stream: str, subject: str = ">") -> dict[str, int]:
        """Return the subjects that a stream holds and the number of messages of each."""
        counts: dict[str, int] = {}
        async for page in self.each_page(f"STREAM.INFO.{stream}", {"subjects_filter": subject}):
            counts |= page["state"].get("subjects") or {}
        return counts


def require_wanted() -> None:
    """Raise if the task was cancelled: Python 3.11 loses a cancellation that arrives with an answer."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def answer_of(data: bytes, endpoint: str, advice: Advice = DEFAULT_ADVICE) -> Json:
    """Return the JSON of an answer; an error of the API is raised."""
    try:
        answer = msgspec.json.decode(data, type=Json)
    except msgspec.DecodeError:
        raise Error(f"the answer to {endpoint} is not JSON: JetStream does not answer there") from None
    if error := answer.get("error"):
        number = int(error.get("err_code") or 0)
        raise RequestRefusedError(
            int(error.get("code") or 0),
            number,
            str(error.get("description") or ""),
            advice.by_error.get(number, ""),
        )
    return answer


async def connected_client(
    connection: ConnectionSettings, advice: Advice = DEFAULT_ADVICE, kind: type[Client] = Client
) -> Client:
    """Return a client of the first server that admits it; close it after use."""
    options = connection.options()
    for server in options.pop("servers"):
        try:
            return await _connect(server, options, kind)
        except (nats.errors.Error, OSError, ValueError, TimeoutError) as error:
            reason = error
    raise UnreachableError(_why_not(connection, reason, advice)) from None


async def _connect(server: str, options: Mapping[str, Any], kind: type[Client]) -> Client:
    """Return a client that fails at once if it cannot connect, and reconnects if it loses the server."""
    client = kind()
    connecting = True

    async def on_error(error: Exception) -> None:
        # Without this the client would retry for minutes. Once connected, that is wanted.
        if connecting:
            raise error

    try:
        await client.connect(server, name="headwater", error_cb=on_error, **options)
    except BaseException:
        await client.close()
        raise
    connecting = False
    return client


def plain(error: BaseException) -> str:
    """Return an error of the NATS client without its prefix."""
    return str(error).removeprefix("nats: ").strip("'\"") or type(error).__name__


def _why_not(connection: ConnectionSettings, error: Exception, advice: Advice) -> str:
    """Return why there is no connection, and what to do about it."""
    where = connection.address
    reason = plain(error)
    # A server that refuses a client closes the connection at once, and its reason may be lost.
    hung_up = isinstance(error, ConnectionResetError | BrokenPipeError | nats.errors.UnexpectedEOF)
    if hung_up or "authorization" in reason.lower() or "authentication" in reason.lower():
        return f"{where} refused the credentials: {advice.not_admitted}"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer: {advice.unanswered}"
    if isinstance(error, OSError):
        reason = (error.strerror or reason).lower()
        if "connect call failed" in reason or "refused" in reason:
            reason = "connection refused"
    return f"cannot connect to {where}: {reason}; {advice.unreachable}"
