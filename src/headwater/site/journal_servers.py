"""The nats-servers that keep the journals of sites: their leader, and how far the others are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.errors import Error
from headwater.journal.jetstream_journal import JetStreamPlace
from headwater.journal.opened_head import servers_of
from headwater.site.layout import SiteFolders
from headwater.site.links import monitored
from headwater.site.topology import Site, Topology

ANSWER_S = 3.0
_NATS = ("nats://", "tls://")


class JournalServer(msgspec.Struct, frozen=True):
    """One server that keeps a copy of a journal."""

    name: str
    role: str
    """`leader` or `follower`."""
    is_up: bool
    is_current: bool
    lag: int = 0
    """How many records it is behind the leader."""


class JournalStatus(msgspec.Struct, frozen=True):
    """The journal of a site's engines."""

    address: str
    """Without credentials."""
    servers: tuple[JournalServer, ...] = ()
    problem: str = ""

    @property
    def is_up(self) -> bool:
        """Return whether nothing of the journal is down, as far as it says."""
        return not self.problem and all(server.is_up for server in self.servers)


async def without_leader(topology: Topology, stopped: Collection[str] = ()) -> list[str]:
    """Return the sites that are not stopped and whose servers keep a journal and cannot store it yet."""
    sites = [site for site in topology.sites if site.has_journal_servers and site.name not in stopped]
    found = await asyncio.gather(*(_is_elected(site) for site in sites))
    return [site.name for site, is_elected in zip(sites, found, strict=True) if not is_elected]


async def _is_elected(site: Site) -> bool:
    """Return whether the leader of a site's servers sees all of them."""
    pages = await asyncio.gather(*(monitored(node, "jsz") for node in site.nodes))
    for node, page in zip(site.nodes, pages, strict=True):
        meta = (page or {}).get("meta_cluster") or {}
        if meta.get("leader") == node.name:
            peers = meta.get("replicas") or ()
            return sum(bool(peer.get("current")) for peer in peers) == site.size - 1
    return False


async def journal_status(layout: SiteFolders, site: Site) -> JournalStatus | None:
    """Return the status of the journal of a site's own engines, None if they have none."""
    if site.engine != site.name or not site.has_journal:
        return None
    if site.has_journal_servers and not layout.journal_password(site).exists():
        return JournalStatus("", problem=f"{site.name} was never started here: run `headwater site up`")
    address = layout.journal(site.name)
    if not address.startswith(_NATS):
        return JournalStatus(address)
    servers, name = servers_of(address)
    options = ConnectOptions(
        servers=servers,
        name="headwater site",
        creds_file=str(site.store.journal_creds or ""),
        tls_ca=str(site.tls.ca) if site.tls else "",
        tls_cert=str(site.tls.cert) if site.tls and site.tls.verify else "",
        tls_key=str(site.tls.key) if site.tls and site.tls.verify else "",
    )
    place = JetStreamPlace(options, name)
    try:
        return JournalStatus(place.address, tuple(servers_in(await _info(place))))
    except (Error, OSError, TimeoutError, msgspec.DecodeError) as error:
        return JournalStatus(place.address, problem=str(error).partition("\n")[0] or "no answer")


async def _info(place: JetStreamPlace) -> dict[str, Any]:
    connection = Connection(place.options)
    await connection.connect()
    try:
        frame = await connection.request(f"$JS.API.STREAM.INFO.{place.stream}".encode(), b"", ANSWER_S)
    finally:
        await connection.close()
    answer: dict[str, Any] = msgspec.json.decode(frame[3])
    if "error" in answer:
        raise Error(str(answer["error"].get("description")))
    return answer


def servers_in(info: dict[str, Any]) -> list[JournalServer]:
    """Return the servers in a stream's info, the leader first."""
    cluster = info.get("cluster") or {}
    leader = str(cluster.get("leader") or "")
    found = [JournalServer(leader, "leader", is_up=True, is_current=True)] if leader else []
    return found + [
        JournalServer(
            str(peer["name"]),
            "follower",
            is_up=not peer.get("offline"),
            is_current=bool(peer.get("current")),
            lag=int(peer.get("lag", 0)),
        )
        for peer in cluster.get("replicas") or ()
    ]
