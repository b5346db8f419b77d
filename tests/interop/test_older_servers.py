"""Every older nats-server at hand, as an origin, as a replicator from us, and as what an engine attaches to.

`make test-older-servers` runs this on the binaries of a folder; without it there is nothing to run it on.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import nats
import pytest

import test_attach as attaching
from control.copiers import be_impatient, count_is, create, held
from control.remote_origins import RemoteSites, a_nats_server, remote_sites
from engines import engine
from interop import test_nats_server_replicates as replicates
from interop.sites import Sites, attached, behind_a_leaf
from servers import nats_server
from upstreams import test_durables as queues
from waits import until

FOLDER = os.environ.get("TEST_OLDER_SERVERS", "")
WITHOUT = "TEST_OLDER_SERVERS names no folder with <version>/nats-server in it; see CONTRIBUTING.md"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests for work answered soon when there is none, so that a test continues."""
    be_impatient(monkeypatch)


def at_hand() -> list[str]:
    """Return the versions in the folder, oldest first."""
    found = [path.parent.name for path in Path(FOLDER).glob("*/nats-server")] if FOLDER else []
    return sorted(found, key=number)


def number(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that they can be compared."""
    return tuple(int(part) for part in version.split("."))


@pytest.fixture(params=at_hand() or [""])
def version(request: pytest.FixtureRequest) -> str:
    """Return each version in turn."""
    if not request.param:
        pytest.skip(WITHOUT)
    return str(request.param)


@pytest.fixture
def binary(version: str) -> str:
    """Return where the nats-server of the version is."""
    return str(Path(FOLDER) / version / "nats-server")


@pytest.fixture
async def hub(binary: str, tmp_path: Path) -> AsyncIterator[RemoteSites]:
    """Yield an engine that is a leaf of an older nats-server, whose streams it copies."""

    def older(store: Path) -> AbstractAsyncContextManager[Any]:
        return a_nats_server(store, binary)

    async with remote_sites(older, tmp_path) as running:
        yield running


@pytest.fixture(params=[attached, behind_a_leaf], ids=lambda setup: setup.__name__)
async def sites(request: pytest.FixtureRequest, binary: str, tmp_path: Path) -> AsyncIterator[Sites]:
    """Yield an older nats-server that replicates from an engine."""
    async with request.param(tmp_path, binary) as both:
        yield both


@pytest.fixture
async def beside(binary: str, tmp_path: Path) -> AsyncIterator[attaching.Beside]:
    """Yield an engine attached to an older nats-server that has a JetStream of its own."""
    async with nats_server(jetstream="hub", leaf=True, binary=binary) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake")
        async with engine(tmp_path, *options) as running:
            client = await nats.connect(server.client_url)
            try:
                yield attaching.Beside(server, running, client)
            finally:
                await client.close()


async def stored(hub: RemoteSites) -> list[tuple[int, str, bytes]]:
    """Return what the origin holds, read one by one."""
    state = (await hub.origin.ask("STREAM.INFO.O"))["state"]
    found = []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        answer = await hub.origin.ask("STREAM.MSG.GET.O", {"seq": seq})
        if "error" not in answer:
            message = answer["message"]
            found.append((seq, message["subject"], base64.b64decode(message["data"])))
    return found


async def copied(hub: RemoteSites, stream: str) -> list[tuple[int, str, bytes]]:
    """Return what a stream of ours holds."""
    return [(m.seq, m.subject.decode(), m.data) for m in await held(hub.door, stream)]


async def other_consumer(hub: RemoteSites, **more: Any) -> None:
    """Create a consumer of another client at the origin."""
    asked = {"stream_name": "O", "config": {"durable_name": "OTHER", "ack_policy": "explicit", **more}}
    assert "error" not in await hub.origin.ask("CONSUMER.DURABLE.CREATE.O.OTHER", asked)


async def refused(hub: RemoteSites, words: str) -> None:
    """Return once the source shows an error with these words."""

    async def reports() -> bool:
        await hub.copier.tick()
        (info,) = (await hub.door.asker.ask("STREAM.INFO.S"))["sources"]
        return words in info.get("error", {}).get("description", "")

    await until(reports, f"an error that says {words}")


@pytest.mark.parametrize("direct", [True, False], ids=["direct gets", "consumers"])
async def test_a_limits_stream_is_copied_in_every_way_and_nothing_stays_there(
    hub: RemoteSites, direct: bool
) -> None:
    config = {"name": "O", "subjects": ["o.*"], "allow_direct": direct, "retention": "limits"}
    assert "error" not in await hub.origin.ask("STREAM.CREATE.O", config)
    for count in range(60):
        await hub.origin.publish(f"o.{'abc'[count % 3]}", b"%d" % count)
    for seq in (1, 7, 20, 21, 60):
        assert (await hub.origin.ask("STREAM.MSG.DELETE.O", {"seq": seq}))["success"]
    begun = (await hub.origin.ask("STREAM.MSG.GET.O", {"seq": 40}))["message"]["time"]
    renamed = [{"src": "o.a", "dest": "n.a"}, {"src": "o.c", "dest": "n.c"}]
    await create(hub.door, name="M", mirror=hub.source("O"))
    await create(hub.door, name="S", sources=[hub.source("O")])
    await create(hub.door, name="F", sources=[hub.source("O", filter_subject="o.b")])
    await create(hub.door, name="T", sources=[hub.source("O", subject_transforms=renamed)])
    await create(hub.door, name="Q", mirror=hub.source("O", opt_start_seq=30))
    await create(hub.door, name="W", mirror=hub.source("O", opt_start_time=begun))
    origin = await stored(hub)
    for stream, count in (("M", 55), ("S", 55), ("F", 19), ("T", 36), ("Q", 30), ("W", 20)):
        await hub.copier.until(count_is(hub.door, stream, count))
    assert await copied(hub, "M") == origin
    assert [row[1:] for row in await copied(hub, "S")] == [row[1:] for row in origin]
    assert [row[1:] for row in await copied(hub, "F")] == [row[1:] for row in origin if row[1] == "o.b"]
    wanted = [(f"n{subject[1:]}", data) for _, subject, data in origin if subject != "o.b"]
    assert [row[1:] for row in await copied(hub, "T")] == wanted
    assert await copied(hub, "Q") == [row for row in origin if row[0] >= 30]
    assert await copied(hub, "W") == [row for row in origin if row[0] >= 40]
    await hub.link.cut()
    for count in range(60, 80):
        await hub.origin.publish("o.b", b"%d" % count)
    await hub.link.restore()
    await hub.copier.until(count_is(hub.door, "M", 75))
    await hub.copier.until(count_is(hub.door, "F", 39))
    assert await copied(hub, "M") == await stored(hub)
    assert await hub.consumers("O") == []
    assert (await hub.origin.ask("STREAM.INFO.O"))["state"]["consumer_count"] == 0


@pytest.mark.parametrize("retention", queues.RETENTIONS)
async def test_a_queue_keeps_each_message_until_it_is_committed(hub: RemoteSites, retention: str) -> None:
    await queues.test_a_message_leaves_once_the_target_has_it(hub, retention)


@pytest.mark.parametrize("retention", queues.RETENTIONS)
async def test_a_queue_behind_a_lost_link_loses_and_repeats_nothing(hub: RemoteSites, retention: str) -> None:
    await queues.test_a_lost_link_loses_and_repeats_nothing(hub, retention)


@pytest.mark.parametrize("retention", queues.RETENTIONS)
async def test_what_of_a_queue_was_not_committed_comes_again(hub: RemoteSites, retention: str) -> None:
    await queues.test_what_was_read_and_not_committed_comes_again_in_order(hub, retention)
    assert len(await hub.consumers("O")) == 1


@pytest.mark.parametrize("retention", queues.RETENTIONS)
async def test_several_filters_of_a_queue_take_nothing_else_from_it(
    hub: RemoteSites, version: str, retention: str
) -> None:
    config = {"name": "O", "subjects": ["o.*"], "retention": retention}
    assert "error" not in await hub.origin.ask("STREAM.CREATE.O", config)
    await other_consumer(hub, filter_subject="o.b")
    chosen = [{"src": "o.a", "dest": "n.a"}, {"src": "o.c", "dest": "n.c"}]
    await create(hub.door, name="S", sources=[hub.source("O", subject_transforms=chosen)])
    if number(version) < (2, 10):
        # A consumer without filters is refused by a queue itself, where somebody else has one.
        await refused(hub, "older than 2.10" if retention == "interest" else "on workqueue stream")
        assert await hub.consumers("O") == ["OTHER"]
        return
    await queues.has_consumer(hub, count=2)
    for subject in ("o.a", "o.b", "o.c", "o.b"):
        await hub.pour(subject, 3)
    await hub.copier.until(count_is(hub.door, "S", 6))
    await hub.emptied("O", left=6)


async def test_a_second_consumer_of_a_work_queue_is_as_its_server_allows(
    hub: RemoteSites, version: str
) -> None:
    config = {"name": "O", "subjects": ["o"], "retention": "workqueue"}
    assert "error" not in await hub.origin.ask("STREAM.CREATE.O", config)
    await other_consumer(hub)
    await create(hub.door, name="S", sources=[hub.source("O")])
    if number(version) >= (2, 14):
        await queues.has_consumer(hub, count=2)
        return
    await refused(hub, "not allowed on workqueue stream")


async def test_it_mirrors_from_us_with_sequences_times_headers_and_gaps(sites: Sites) -> None:
    await replicates.test_a_mirror_keeps_sequences_times_headers_and_gaps(sites)


async def test_it_sources_from_us_what_its_filter_and_start_say(sites: Sites) -> None:
    await sites.lake("STREAM.CREATE.ORIG", replicates.ORIGIN)
    for count in range(12):
        await sites.store(f"orig.{'abc'[count % 3]}", b"%d" % count)
    await replicates.source(sites, filter_subject="orig.b", opt_start_seq=4)
    await sites.holds("COPY", 3)
    assert replicates.texts(await sites.messages("COPY")) == ["4", "7", "10"]
    await sites.store("orig.b", b"12")
    await sites.holds("COPY", 4)


async def test_it_continues_after_the_link_to_us_was_cut(sites: Sites) -> None:
    await sites.lake("STREAM.CREATE.ORIG", replicates.ORIGIN)
    await replicates.mirror(sites)
    await sites.publish("orig.a", 50)
    await sites.holds("COPY", 50, messages=50)
    await sites.link.cut()
    await sites.link.restore()
    await sites.publish("orig.c", 10, start=50)
    await sites.holds("COPY", 60, messages=60)
    assert await replicates.unlike(sites) == []


async def test_an_engine_attached_to_it_serves_consumers_of_all_kinds(beside: attaching.Beside) -> None:
    await attaching.test_pull_push_and_ordered_consumers_of_a_domain(beside)


async def test_an_engine_attached_to_it_leaves_its_own_jetstream_alone(beside: attaching.Beside) -> None:
    await attaching.test_both_jetstreams_keep_their_own_streams(beside)


async def test_an_engine_attached_to_it_continues_when_it_was_killed(beside: attaching.Beside) -> None:
    await attaching.test_everything_continues_when_the_server_was_killed(beside)
