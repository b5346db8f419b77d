"""What is said before attaching to a running server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.bus.connection import Connection
from headwater.bus.free_port import free_port
from headwater.bus.options import ConnectOptions
from headwater.bus.preflight import check_version, preflight
from headwater.errors import BusError
from headwater.wire.frames import answers
from servers import RunningServer, nats_server
from sinks import KeptSink


def client(server: RunningServer, **credentials: Any) -> ConnectOptions:
    """Return options for the client port."""
    return replace(ConnectOptions((server.client_url,)), **credentials)


def leaf(server: RunningServer, **credentials: Any) -> ConnectOptions:
    """Return options for the leaf port."""
    return replace(ConnectOptions((server.leaf_url,)), **credentials)


class AnsweringSink(KeptSink):
    """Answers like an engine that already serves the domain."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def flush(self) -> None:
        """Answer each request."""
        self._connection.write(answers((frame[1], b"{}") for frame in self.items))
        super().flush()


@pytest.mark.parametrize(
    ("jetstream", "domain"), [(False, ""), (False, "lake"), ("hub", "lake"), (True, "lake")]
)
async def test_a_server_that_has_everything_passes(jetstream: bool | str, domain: str) -> None:
    async with nats_server(jetstream=jetstream, leaf=True) as server:
        assert await preflight(client(server), leaf(server), domain) == ()


async def test_a_server_that_is_not_there() -> None:
    port = free_port()
    with pytest.raises(BusError, match="Cannot connect") as caught:
        await preflight(ConnectOptions((f"nats://127.0.0.1:{port}",)), None, "lake")
    assert caught.value.fix == f"listen: 127.0.0.1:{port}"


async def test_credentials_that_are_refused() -> None:
    async with nats_server("authorization { user: u, password: p }") as server:
        with pytest.raises(BusError, match="Authorization Violation") as caught:
            await preflight(client(server, user="u", password="wrong"), None, "lake")
        assert "user: u" in caught.value.fix
        with pytest.raises(BusError, match="Authorization Violation") as caught:
            await preflight(client(server), None, "lake")
        assert "--user" in caught.value.fix


async def test_the_servers_own_jetstream_needs_a_domain_of_our_own() -> None:
    async with nats_server(jetstream=True) as server:
        with pytest.raises(BusError, match="--domain") as caught:
            await preflight(client(server), None, "")
        assert caught.value.fix.startswith("jetstream: disabled")


async def test_the_domain_of_the_servers_own_jetstream_is_refused() -> None:
    async with nats_server(jetstream="hub") as server:
        with pytest.raises(BusError, match="domain hub is the one of the server's own"):
            await preflight(client(server), None, "hub")


@pytest.mark.parametrize("domain", ["lake", ""])
async def test_a_domain_that_is_served_already_is_refused(domain: str) -> None:
    async with nats_server() as server:
        other = Connection(client(server))
        await other.connect()
        prefix = f"$JS.{domain}.API" if domain else "$JS.API"
        other.subscribe(f"{prefix}.>".encode(), AnsweringSink(other))
        await other.flush()
        with pytest.raises(BusError, match="already served") as caught:
            await preflight(client(server), None, domain)
        assert caught.value.fix == "--domain NAME"
        await other.close()


async def test_permissions_that_are_missing_are_named_with_the_fix() -> None:
    def config(permissions: str) -> str:
        return f"authorization {{ users: [ {{ user: u, password: p, {permissions} }} ] }}"

    narrow = 'permissions: { publish: ["_INBOX.>", "$JSC.R.>"], subscribe: ["$JS.lake.API.>", "_INBOX.>"] }'
    async with nats_server(config(narrow)) as server:
        with pytest.raises(BusError) as caught:
            await preflight(client(server, user="u", password="p"), None, "lake")
    assert "subscribe to $JS.ACK.>" in caught.value.problem
    assert "publish to $JS.EVENT.>" in caught.value.problem
    assert "$JSC.R" not in caught.value.problem
    assert "\n" not in caught.value.problem
    fixed = caught.value.fix.partition("#")[0]
    async with nats_server(config(fixed), leaf=True) as server:
        credentials = {"user": "u", "password": "p"}
        assert await preflight(client(server, **credentials), leaf(server, **credentials), "lake") == ()


async def test_no_leaf_port_is_a_warning() -> None:
    async with nats_server() as server:
        (warning,) = await preflight(client(server), None, "lake")
        assert "leaf port" in warning.problem
        assert warning.fix.startswith("leafnodes { listen:")


async def test_a_leaf_port_that_fails_is_a_warning() -> None:
    async with nats_server(leaf="authorization { user: l, password: p }") as server:
        (refused,) = await preflight(client(server), leaf(server), "lake")
        assert "Authorization Violation" in refused.problem
        (wrong,) = await preflight(client(server), client(server), "lake")
        assert "not a leaf port" in wrong.problem
        (gone,) = await preflight(
            client(server), ConnectOptions((f"nats://127.0.0.1:{free_port()}",)), "lake"
        )
        assert gone.fix.startswith("leafnodes { listen: 127.0.0.1:")


async def test_a_leaf_of_another_account_is_a_warning() -> None:
    accounts = (
        "accounts { A { users: [ { user: a, password: p } ] }, B { users: [ { user: b, password: p } ] } }"
    )
    async with nats_server(accounts, leaf=True) as server:
        mine = client(server, user="a", password="p")
        assert await preflight(mine, leaf(server, user="a", password="p"), "lake") == ()
        (warning,) = await preflight(mine, leaf(server, user="b", password="p"), "lake")
        assert "account B" in warning.problem
        assert 'account: "A"' in warning.fix


@pytest.mark.parametrize("version", ["2.9.0", "2.15.1", "2.16.0-dev", "3.0.0", "", "unknown"])
def test_a_server_that_is_new_enough_or_does_not_tell_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["2.8.4", "1.4.1", "2.2.0-beta"])
def test_a_server_that_is_too_old_is_named_with_what_is_needed(version: str) -> None:
    with pytest.raises(BusError, match=rf"nats-server {version}; an engine attaches to 2\.9 and later"):
        check_version(version)
