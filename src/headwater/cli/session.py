"""A command's connection to a JetStream: the shared client, with advice that names the command's flags."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client

from headwater.client import jetstream_api
from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import (
    Advice,
    JetStreamApi,
    Json,
    RequestRefusedError,
    UnreachableError,
    connected_client,
    plain,
    require_wanted,
)

__all__ = [
    "Json",
    "RequestRefusedError",
    "Session",
    "UnreachableError",
    "answer_of",
    "connected",
    "flushed",
    "plain",
    "require_wanted",
]

ADVICE = Advice(
    no_responders="select a domain with --js-domain, or enable JetStream",
    timeout="check the server, or pass a longer --timeout",
    not_admitted="pass --user and --password, --creds or --nkey, or a --context",
    unanswered="correct --server, or pass a longer --timeout",
    unreachable="start an engine with `headwater serve --store DIR`, or pass another --server",
    by_error={
        10008: "try again in a moment",
        10014: "`headwater consumer ls STREAM` lists the consumers",
        10039: "enable JetStream for this account in the server's configuration",
        10058: "change it with `headwater stream edit`, or choose another name",
        10059: "`headwater stream ls` lists the streams; --js-domain selects another domain",
        10065: "`headwater stream find --subject SUBJECT` shows which",
        10074: "start the engine with a --journal that keeps more copies, or with --max-replicas",
        10076: "start nats-server with --js, or select a domain with --js-domain",
        10130: "remove it first, or restore under another name with --config",
        10148: "change it with `headwater consumer edit`, or choose another name",
    },
)


class Session(JetStreamApi):
    """A connected client of one JetStream API whose errors name flags."""

    def __init__(self, client: Client, connection: ConnectionSettings) -> None:
        super().__init__(client, connection.prefix, connection.timeout, ADVICE)
        self.connection = connection


def answer_of(data: bytes, endpoint: str) -> Json:
    """Return the JSON of an answer; an error of the API is raised, with a command that helps."""
    return jetstream_api.answer_of(data, endpoint, ADVICE)


@asynccontextmanager
async def connected(connection: ConnectionSettings) -> AsyncIterator[Session]:
    """Connect to the first server that admits the client, and close the connection at the end."""
    client = await connected_client(connection, ADVICE)
    try:
        yield Session(client, connection)
    finally:
        await client.close()


async def flushed(client: Client) -> None:
    """Return once the server has read everything that the client sent."""
    # The client sends the PING of a flush before its pending data; only a second flush covers that data.
    await client.flush()
    await client.flush()
