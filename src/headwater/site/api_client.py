"""A client of one site's JetStream, connected as the engine's own user."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from headwater.errors import ApiError, Error
from headwater.site.topology import Account, Json, Site
from headwater.wire.progress_json import REQUESTED_BY

ASK_S = 5.0


class ApiRefusedError(ApiError):
    """An error that the API answered."""


class NoAnswerError(Error):
    """Nobody answers."""

    retryable = True


class ApiClient:
    """Asks the API of one domain."""

    def __init__(self, client: Client, domain: str) -> None:
        self._client = client
        self._prefix = f"$JS.{domain}.API"

    async def ask(self, endpoint: str, body: Json | None = None, wait_s: float = ASK_S) -> Json:
        """Return the answer of an endpoint; refusals are raised."""
        subject = f"{self._prefix}.{endpoint}"
        data = b"" if body is None else json.dumps(body).encode()
        headers = {REQUESTED_BY: "1"} if endpoint.startswith("STREAM.INFO.") else None
        try:
            message = await self._client.request(subject, data, timeout=wait_s, headers=headers)
            answer: Json = json.loads(message.data)
        except nats.errors.NoRespondersError:
            raise NoAnswerError(f"nobody answers on {subject}") from None
        except (nats.errors.Error, TimeoutError):
            raise NoAnswerError(f"no answer on {subject} within {wait_s:g} s") from None
        if error := answer.get("error"):
            raise ApiRefusedError("", error["code"], error.get("err_code", 0), error["description"])
        return answer

    async def streams(self) -> list[Json]:
        """Return the infos of all streams, with how their upstreams fare."""
        names: list[str] = []
        while True:
            page = await self.ask("STREAM.NAMES", {"offset": len(names)})
            found = page.get("streams") or []
            names += found
            if not found or len(names) >= page["total"]:
                break
        return [await self.ask(f"STREAM.INFO.{name}") for name in names]


@asynccontextmanager
async def api_client(site: Site, account: Account, seed: Path) -> AsyncIterator[ApiClient]:
    """Connect to a site as the engine's user of an account."""
    client = await _connected(list(site.client_urls()), _proof(site, account, seed))
    try:
        yield ApiClient(client, site.domain_of(account.name))
    finally:
        await client.close()


def _proof(site: Site, account: Account, seed: Path) -> dict[str, Any]:
    proof: dict[str, Any] = {}
    if site.operator is not None:
        proof["user_credentials"] = str(next(user.creds for user in account.users if user.creds))
    elif not seed.exists():
        raise NoAnswerError(f"{site.name} was never brought up here")
    else:
        proof["nkeys_seed"] = str(seed)
    if site.tls is not None:
        context = ssl.create_default_context(cafile=str(site.tls.ca))
        if site.tls.verify:
            context.load_cert_chain(str(site.tls.cert), str(site.tls.key))
        proof["tls"] = context
    return proof


async def _connected(servers: list[str], proof: dict[str, Any]) -> Client:
    """Return a client of the first server that takes us; one that nobody takes fails at once."""
    reason: Exception = OSError("no server")
    for server in servers:
        client = Client()
        connecting = True

        async def hear(error: Exception) -> None:
            # Left alone, the client would go on trying for minutes; once connected, whoever asks is told.
            if connecting:  # noqa: B023 - it is asked only while this very client connects
                raise error

        try:
            await client.connect(server, name="headwater site", error_cb=hear, allow_reconnect=False, **proof)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await client.close()
            reason = error
            continue
        connecting = False
        return client
    raise NoAnswerError(f"{', '.join(servers)} cannot be reached: {str(reason) or type(reason).__name__}")
