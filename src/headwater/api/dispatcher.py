"""From a request's subject to its answer: the only place that routes, bounds, runs and answers requests."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from headwater.api.context import ApiContext
from headwater.api.endpoints import MSG_NEXT, UNANSWERED, Body, Endpoint, EndpointMatch, find
from headwater.api.lanes import Lanes
from headwater.api.request import Request, WithHeaders, check_level
from headwater.errors import ApiError, CorruptionError, DiskError, api_error
from headwater.model import headers
from headwater.model.api_level import level_is_enough
from headwater.wire.bulk_requests import WRITE
from headwater.wire.frames import Frame
from headwater.wire.stream_json import Json, error_json

logger = logging.getLogger(__name__)
_WIDTH, _DEPTH, _TOTAL = 8, 1024, 10_000
_LEVEL = headers.build(code=412, description=b"Required Api Level")


class Dispatcher:
    """The sink of all requests below the API prefixes, such as `$JS.API` and `$JS.<domain>.API`."""

    def __init__(self, context: ApiContext, prefixes: tuple[str, ...]) -> None:
        self.items: list[Frame] = []
        self._context = context
        self._prefixes = tuple(f"{prefix}." for prefix in prefixes)
        self._lanes = Lanes(width=_WIDTH, depth=_DEPTH, total=_TOTAL)
        self._encoder = msgspec.json.Encoder()
        self._sids: list[bytes] = []

    def start(self) -> None:
        """Answer requests from now on."""
        for prefix in self._prefixes:
            for subject in ("INFO", "STREAM.>", "CONSUMER.>", *UNANSWERED):
                self._sids.append(self._context.connection.subscribe((prefix + subject).encode(), self))

    async def stop(self) -> None:
        """Accept no more requests, and return once the accepted ones are answered."""
        for sid in self._sids:
            self._context.connection.unsubscribe(sid)
        self._sids.clear()
        await self._lanes.drain()

    def flush(self) -> None:
        """Begin to answer the requests that have arrived."""
        frames, self.items[:] = list(self.items), []
        for subject, reply, header, body in frames:
            self._begin(self._below_prefix(subject), reply, header, body)

    def _below_prefix(self, subject: bytes) -> str:
        text = subject.decode(errors="replace")
        prefix = next((p for p in self._prefixes if text.startswith(p)), "")
        return text[len(prefix) :]

    def _begin(self, subject: str, reply: bytes, header: bytes, body: bytes) -> None:
        if subject.startswith(WRITE):
            self._context.writes.request(subject.removeprefix(WRITE), reply, body)
            return
        found = find(subject)
        if found is None:
            if subject.startswith(MSG_NEXT) and reply:
                self._pull(subject, reply, header, body)
            return
        request = Request(subject, found.stream, found.consumer, reply, header, body)
        # Requests that are not about one stream have a lane per kind: listing names must not wait for infos.
        lane = found.stream or f" {found.endpoint.pattern}"

        def refuse() -> None:
            self._answer(found.endpoint, request, {}, api_error("cluster_not_avail"))

        self._lanes.submit(lane, lambda: self._run(found, request), refuse)

    def _pull(self, subject: str, reply: bytes, header: bytes, body: bytes) -> None:
        """Pass on a pull request in the order of arrival; without a consumer report no responders."""
        stream, _, consumer = subject.removeprefix(MSG_NEXT).partition(".")
        if not level_is_enough(header):
            self._context.connection.publish(reply, b"", headers=_LEVEL)
        elif not self._context.consumers.pull(stream, consumer, body, reply):
            # As nats-server answers a subject without a subscriber.
            no_responders = headers.build([(b"Nats-Subject", f"$JS.API.{subject}".encode())], code=503)
            self._context.connection.publish(reply, b"", headers=no_responders)

    async def _run(self, found: EndpointMatch, request: Request) -> None:
        members, error = await self._handle(found.endpoint, request)
        self._answer(found.endpoint, request, members, error)

    async def _handle(
        self, endpoint: Endpoint, request: Request
    ) -> tuple[Json | WithHeaders, ApiError | None]:
        """Return the fields of the answer, or the error; every failure of a request ends here."""
        try:
            check_level(request.headers)
            if endpoint.body is Body.EMPTY and not request.is_empty:
                raise api_error("not_empty_request")
            if endpoint.body is Body.NEEDED and request.is_empty:
                raise api_error("bad_request")
            async with asyncio.timeout(endpoint.within_s):
                return await endpoint.handler(self._context, request), None
        except TimeoutError:
            logger.error("%s: no answer in %g s", request.subject, endpoint.within_s or 0)
            return {}, api_error("cluster_not_avail")
        except ApiError as error:
            return {}, error
        except DiskError as error:
            logger.error("%s failed: %s", request.subject, error)
            return {}, api_error("storage_resources_exceeded") if error.full else _general(str(error))
        except CorruptionError as error:
            logger.error("%s found damaged data: %s", request.subject, error)
            return {}, _general(str(error))
        except Exception:
            logger.exception("%s failed", request.subject)
            return {}, _general("internal error, see the log of the engine")

    def _answer(
        self, endpoint: Endpoint, request: Request, members: Json | WithHeaders, error: ApiError | None
    ) -> None:
        header = b""
        if isinstance(members, WithHeaders):
            header, members = members.headers, members.members
        response = self._encode(endpoint, members, error)
        limit = self._context.connection.max_payload
        size = len(header) + len(response)
        if size > limit:
            error = _general(_too_large(request.subject, size, limit))
            header, response = b"", self._encode(endpoint, {}, error)
        self._context.count(error)
        if request.reply:
            self._context.connection.publish(request.reply, response, headers=header)
        if endpoint.audited or error is not None:
            self._context.advisories.audit(request, response)

    def _encode(self, endpoint: Endpoint, members: Json, error: ApiError | None) -> bytes:
        if error is None:
            return self._encoder.encode({"type": endpoint.type, **members})
        return self._encoder.encode({"type": endpoint.type, "error": error_json(error), **endpoint.zero})


def _too_large(subject: str, size: int, limit: int) -> str:
    """Return why there is no answer: unlike nats-server, the engine is a client of a server with a limit."""
    instead = "request less"
    if subject.startswith("STREAM.MSG.GET."):
        instead = "read the message with a direct get or a consumer"
    return f"the answer has {size} bytes, more than {limit}: {instead}"


def _general(err: str) -> ApiError:
    return api_error("stream_general_error", err=err)
