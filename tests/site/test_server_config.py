"""Configuration that nats-server accepts, and that closes the engine's subjects to all other users."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from headwater.bus import permissions
from headwater.bus.permissions import INTERNAL
from headwater.site.hosts import check
from headwater.site.layout import SiteFolders
from headwater.site.links import address_of
from headwater.site.server_config import ServerPlacement, account_key, config_text, permissions_of
from headwater.site.topology import Site, Topology
from identities import make_certificates, make_operator
from servers import nats_server
from topologies import ACCOUNTS, cinemas, operator_accounts, topology_of


def accepted(directory: Path, topology: Topology, site: Site) -> str:
    """Return the configuration of a site's first server, which nats-server accepts."""
    text = config_text(topology, site, next(iter(site.nodes)), ServerPlacement())
    (directory / "a.conf").write_text(text)
    check(directory / "a.conf")
    return text


@pytest.mark.parametrize("nodes", [1, 3])
def test_every_server_of_the_cinemas_is_accepted(tmp_path: Path, nodes: int) -> None:
    topology = topology_of(tmp_path, cinemas(nodes))
    for site in topology.sites:
        text = accepted(tmp_path, topology, site)
        assert ("cluster {" in text) == (nodes == 3)
        assert ("jetstream" in text) == (nodes == 3), "JetStream is for the journal only"


def test_links_carry_nothing_internal_and_go_to_their_addresses(tmp_path: Path) -> None:
    topology = topology_of(tmp_path, cinemas())
    site = topology.site("spoke-1")
    node = next(iter(site.nodes))
    remotes = tuple(replace(remote, public_url="nats://127.0.0.1:9") for remote in site.remotes)
    text = config_text(topology, replace(site, remotes=remotes), node, ServerPlacement(is_public=True))
    assert text.count(f'"deny_imports": ["{INTERNAL}"]') == text.count(f'"deny_exports": ["{INTERNAL}"]') == 1
    assert '"nats://acc:acc@127.0.0.1:9"' in text
    assert '"nats://sys:sys@127.0.0.1:9"' in text


def test_passwords_that_urls_cannot_hold_are_escaped(tmp_path: Path) -> None:
    value: dict[str, Any] = copy.deepcopy(cinemas())
    value["accounts"]["ACC"]["users"][0]["password"] = "p@ss:w/rd?"
    topology = topology_of(tmp_path, value)
    assert "nats://acc:p%40ss%3Aw%2Frd%3F@127.0.0.1" in accepted(tmp_path, topology, topology.site("spoke-1"))


def test_certificates_are_shown_and_asked_for_everywhere(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"cert": made.server_cert, "key": made.server_key, "ca": made.ca, "verify": True}
    topology = topology_of(tmp_path, {**cinemas(3), "tls": tls})
    text = accepted(tmp_path, topology, topology.site("spoke-1"))
    assert text.count(made.server_cert) == 5  # for clients, routes, leaf nodes, and two links
    assert "tls://acc:acc@" in text


def test_accounts_can_come_from_an_operator(tmp_path: Path) -> None:
    made = make_operator(tmp_path)
    value = {**operator_accounts(tmp_path, made), "sites": {"hub": {"domain": "hub"}}}
    topology = topology_of(tmp_path, value)
    text = accepted(tmp_path, topology, topology.site("hub"))
    key = account_key(topology.site("hub").accounts[0])
    assert f"{key}: " in made.config
    assert f'"{key}": "hub"' in text
    settings = SiteFolders(topology, tmp_path / "out").write()[-1].read_text()
    assert f'creds = "{made.creds_file}"' in settings
    assert "nkey" not in settings


def test_users_links_and_links_of_their_own_may_do_what_each_needs(tmp_path: Path) -> None:
    value = cinemas(
        streams={
            "spoke-2": [
                {"name": "T", "subjects": ["t.>"]},
                {"name": "M", "mirror": {"name": "F", "external": {"api": "$JS.hub.API"}}},
            ]
        }
    )
    users = [
        {"user": "acc", "password": "acc"},
        {"user": "till", "password": "x", "permissions": {"publish": ["t.>"]}},
        {"user": "two", "password": "x", "leaf": "spoke-2"},
    ]
    value["accounts"] = {**ACCOUNTS, "ACC": {"users": users}}
    value["sites"]["spoke-2"]["remotes"][0]["user"] = "two"
    topology = topology_of(tmp_path, value)
    hub = topology.site("hub")
    account = hub.business[0]
    shared, till, two = (permissions_of(topology, hub, account, user) for user in account.users)
    assert shared == permissions.closed()
    assert till == permissions.client({"publish": ["t.>"]})
    assert two == permissions.spoke("spoke-2", subjects=["t.>"], reads=[("hub", "F")])
    assert permissions_of(topology, hub, hub.accounts[0], hub.accounts[0].users[0]) is None
    accepted(tmp_path, topology, hub)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[tuple[Client, Client]]:
    """A hub's server as configured, with its engine's user and a user of the account."""
    layout = SiteFolders(topology_of(tmp_path, cinemas()), tmp_path / "out")
    layout.write()
    site = layout.topology.site("hub")
    config = layout.server_config(site, next(iter(site.nodes))).read_text()
    lines = [line for line in config.splitlines() if not line.startswith(("listen", "http"))]
    async with nats_server("\n".join(lines)) as server:
        engine = await nats.connect(
            server.client_url, nkeys_seed=str(layout.seed(site, site.business[0])), error_cb=_ignore
        )
        user = await nats.connect(server.client_url, user="acc", password="acc", error_cb=_ignore)
        yield engine, user
        await user.close()
        await engine.close()


async def taken_by(client: Client) -> None:
    """Return once the server has taken all that a client wrote; the ping of `flush` may overtake it."""
    arrived, inbox = asyncio.Event(), client.new_inbox()

    async def arrive(message: Any) -> None:
        arrived.set()

    await client.subscribe(inbox, cb=arrive)
    await client.publish(inbox, b"")
    await asyncio.wait_for(arrived.wait(), 60)


async def _ignore(error: Exception) -> None:
    """Take no notice: refusals are what is tried."""


async def test_only_the_engine_can_use_internal_subjects(hub: tuple[Client, Client]) -> None:
    engine, user = hub
    heard_all, heard = asyncio.Event(), asyncio.Event()
    spied: list[str] = []

    async def spy(message: Any) -> None:
        if not message.subject.startswith("_INBOX."):
            spied.append(message.subject)
        if message.subject == "ordinary":
            heard_all.set()

    async def hear(message: Any) -> None:
        assert message.data == b"engine"
        heard.set()

    await user.subscribe(">", cb=spy)
    await engine.subscribe("$HEADWATER.x", cb=hear)
    await taken_by(engine)
    await user.publish("$HEADWATER.x", b"user")
    await taken_by(user)
    await engine.publish("$HEADWATER.x", b"engine")
    await engine.publish("ordinary", b"")
    await asyncio.wait_for(heard.wait(), 60)
    await asyncio.wait_for(heard_all.wait(), 60)
    assert spied == ["ordinary"]


async def test_clients_that_name_no_domain_reach_the_one_of_their_site(hub: tuple[Client, Client]) -> None:
    engine, user = hub

    async def answer(message: Any) -> None:
        await message.respond(message.subject.encode())

    await engine.subscribe("$JS.hub.API.>", cb=answer)
    await taken_by(engine)
    assert (await user.request("$JS.API.STREAM.NAMES", b"", timeout=60)).data == b"$JS.hub.API.STREAM.NAMES"


def test_a_link_may_know_several_addresses_of_its_other_end(tmp_path: Path) -> None:
    value = cinemas()
    urls = ["nats://127.0.0.1:7001", "nats://127.0.0.1:7002"]
    for site, url in (("spoke-1", urls), ("spoke-2", ", ".join(urls))):
        value["sites"][site]["remotes"] = [{"url": url, "account": "ACC", "user": "acc"}]
    topology = topology_of(tmp_path, value)
    for site in ("spoke-1", "spoke-2"):
        text = accepted(tmp_path, topology, topology.site(site))
        assert '["nats://acc:acc@127.0.0.1:7001", "nats://acc:acc@127.0.0.1:7002"]' in text
        (remote,) = topology.site(site).remotes
        assert address_of(remote) == ",".join(urls)
