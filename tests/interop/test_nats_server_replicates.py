"""A real nats-server of another domain mirrors and sources streams of the lake."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from interop.sites import LAKE, Json, Sites, attached, behind_a_leaf, embedded
from waits import until

Setup = Callable[[Path], AbstractAsyncContextManager[Sites]]
ORIGIN: Json = {"name": "ORIG", "subjects": ["orig.>"], "storage": "file"}
FROM: Json = {"name": "ORIG", "external": {"api": LAKE}}


@pytest.fixture(params=[attached, behind_a_leaf, embedded], ids=lambda setup: setup.__name__)
async def sites(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sites]:
    setup: Setup = request.param
    async with setup(tmp_path) as both:
        yield both


@pytest.fixture(params=[attached, behind_a_leaf], ids=lambda setup: setup.__name__)
async def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sites]:
    """Yield sites whose addresses survive a restart of the engine."""
    setup: Setup = request.param
    async with setup(tmp_path) as both:
        yield both


@pytest.fixture
async def together(tmp_path: Path) -> AsyncIterator[Sites]:
    async with attached(tmp_path) as both:
        yield both


async def mirror(sites: Sites, **more: object) -> None:
    """Have the edge mirror the lake's stream."""
    await sites.edge("STREAM.CREATE.COPY", {"name": "COPY", "storage": "file", "mirror": {**FROM, **more}})


async def source(sites: Sites, **more: object) -> None:
    """Have the edge source the lake's stream."""
    await sites.edge("STREAM.CREATE.COPY", {"name": "COPY", "storage": "file", "sources": [{**FROM, **more}]})


async def unlike(sites: Sites) -> list[tuple[Json | None, Json | None]]:
    """Return how the edge's copy differs from the lake's stream, message by message."""
    ours = {message["seq"]: message for message in await lake_messages(sites)}
    theirs = {message["seq"]: message for message in await sites.messages("COPY")}
    every = sorted(ours.keys() | theirs.keys())
    return [(ours.get(s), theirs.get(s)) for s in every if ours.get(s) != theirs.get(s)]


async def lake_messages(sites: Sites) -> list[Json]:
    """Return every message of the lake's stream."""
    state = (await sites.lake("STREAM.INFO.ORIG"))["state"]
    found, seq = [], state["first_seq"]
    while seq <= state["last_seq"]:
        asked = {"next_by_subj": ">", "seq": seq}
        message: Json = (await sites.lake("STREAM.MSG.GET.ORIG", asked))["message"]
        found.append(message)
        seq = message["seq"] + 1
    return found


def texts(messages: list[Json]) -> list[str]:
    """Return the data of messages up to the padding."""
    return [base64.b64decode(message.get("data", "")).decode().rstrip(".") for message in messages]


def source_headers(messages: list[Json]) -> list[str]:
    """Return the source header of each message."""
    blocks = (base64.b64decode(message["hdrs"]).decode() for message in messages)
    return [block.partition("Nats-Stream-Source: ")[2].partition("\r\n")[0] for block in blocks]


async def test_a_mirror_keeps_sequences_times_headers_and_gaps(sites: Sites) -> None:
    await sites.lake("STREAM.CREATE.ORIG", ORIGIN)
    await sites.publish("orig.a", 10)
    await sites.store("orig.b", b"with headers", {"X-One": "1", "Nats-Msg-Id": "unique"})
    for seq in (1, 2, 5, 9):
        await sites.lake("STREAM.MSG.DELETE.ORIG", {"seq": seq})
    await mirror(sites)
    await sites.holds("COPY", 11, messages=7)
    await sites.publish("orig.c", 3)
    await sites.holds("COPY", 14, messages=10)
    state = (await sites.edge("STREAM.INFO.COPY", {"deleted_details": True}))["state"]
    assert (state["first_seq"], state["deleted"]) == (3, [5, 9])
    assert await unlike(sites) == []


async def test_a_source_records_where_each_message_came_from(sites: Sites) -> None:
    await sites.lake("STREAM.CREATE.ORIG", ORIGIN)
    await sites.publish("orig.a", 3)
    await source(sites)
    await sites.holds("COPY", 3)
    await sites.publish("orig.b", 2, start=3)
    await sites.holds("COPY", 5)
    found = await sites.messages("COPY")
    assert texts(found) == ["0", "1", "2", "3", "4"]
    named = [header.split(" ") for header in source_headers(found)]
    assert [fields[1] for fields in named] == ["1", "2", "3", "4", "5"]
    assert [fields[4] for fields in named] == ["orig.a"] * 3 + ["orig.b"] * 2
    # The sixth field says which of the streams of this name it was.
    assert len({fields[5] for fields in named}) == 1
    assert all(len(fields) == 6 and fields[5] for fields in named)


async def test_a_filter_and_transforms_choose_and_rename(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    for number in range(6):
        await together.store(f"orig.{'abc'[number % 3]}.x", b"%d" % number)
    await source(together, filter_subject="orig.b.*")
    await together.holds("COPY", 2)
    assert texts(await together.messages("COPY")) == ["1", "4"]
    renamed = {
        "name": "RENAMED",
        "storage": "file",
        "mirror": {
            **FROM,
            "subject_transforms": [
                {"src": "orig.a.*", "dest": "first.{{wildcard(1)}}"},
                {"src": "orig.c.*", "dest": "third.{{wildcard(1)}}"},
            ],
        },
    }
    await together.edge("STREAM.CREATE.RENAMED", renamed)
    await together.holds("RENAMED", 6, messages=4)
    found = await together.messages("RENAMED")
    assert [(m["seq"], m["subject"]) for m in found] == [
        (1, "first.x"),
        (3, "third.x"),
        (4, "first.x"),
        (6, "third.x"),
    ]


@pytest.mark.parametrize("copy", [mirror, source], ids=["mirror", "source"])
async def test_a_copy_begins_where_its_config_says(together: Sites, copy: Callable[..., object]) -> None:
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    await together.publish("orig.a", 10)
    seventh = (await together.lake("STREAM.MSG.GET.ORIG", {"seq": 7}))["message"]["time"]
    await copy(together, opt_start_seq=5)  # type: ignore[misc]
    await together.holds("COPY", 10 if copy is mirror else 6, messages=6)
    assert texts(await together.messages("COPY")) == ["4", "5", "6", "7", "8", "9"]
    await together.edge("STREAM.DELETE.COPY")
    await copy(together, opt_start_time=seventh)  # type: ignore[misc]
    await together.holds("COPY", 10 if copy is mirror else 4, messages=4)
    assert texts(await together.messages("COPY")) == ["6", "7", "8", "9"]


async def test_a_mirror_keeps_up_with_what_is_published_and_its_lag_is_what_we_still_hold(
    sites: Sites,
) -> None:
    await sites.lake("STREAM.CREATE.ORIG", ORIGIN)
    await mirror(sites)
    await sites.pour("orig.a", 40_000, size=256)
    await sites.holds("COPY", 40_000, messages=40_000)
    replica = (await sites.edge("STREAM.INFO.COPY"))["mirror"]
    assert (replica["lag"], "error" in replica) == (0, False)
    ours = (await sites.lake("STREAM.INFO.ORIG"))["state"]
    theirs = (await sites.edge("STREAM.INFO.COPY"))["state"]
    assert {key: ours[key] for key in ("messages", "first_seq", "last_seq", "first_ts", "last_ts")} == {
        key: theirs[key] for key in ("messages", "first_seq", "last_seq", "first_ts", "last_ts")
    }
    assert sites.engine.log.count("Traceback") == 0


async def test_a_mirror_far_behind_reads_the_body_of_the_stream_and_catches_up(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    await together.pour("orig.a", 60_000, size=512)
    await mirror(together)
    await source_into(together, "ALSO")
    await together.holds("COPY", 60_000, messages=60_000)
    await together.holds("ALSO", 60_000, messages=60_000)


async def source_into(sites: Sites, name: str) -> None:
    await sites.edge(f"STREAM.CREATE.{name}", {"name": name, "storage": "file", "sources": [FROM]})


async def both_hold(sites: Sites, count: int) -> None:
    """Return once mirror and source have everything, each once."""
    await sites.holds("COPY", count, messages=count)
    await sites.holds("ALSO", count, messages=count)
    positions = [int(header.split(" ")[1]) for header in source_headers(await sites.messages("ALSO"))]
    assert positions == list(range(1, count + 1))


async def test_both_kinds_continue_after_the_nats_server_was_killed(lasting: Sites) -> None:
    await lasting.lake("STREAM.CREATE.ORIG", ORIGIN)
    await mirror(lasting)
    await source_into(lasting, "ALSO")
    await lasting.publish("orig.a", 50)
    await both_hold(lasting, 50)
    await lasting.server.kill()
    if lasting.lake_url != lasting.edge_url:
        await lasting.publish("orig.b", 50, start=50)
    await lasting.server.start()
    if lasting.lake_url == lasting.edge_url:
        # The engine comes back to the server by itself.
        await lasting.lake("STREAM.INFO.ORIG")
        await lasting.publish("orig.b", 50, start=50)
    await both_hold(lasting, 100)
    assert await unlike(lasting) == []


async def test_both_kinds_continue_after_the_engine_was_killed(lasting: Sites) -> None:
    await lasting.lake("STREAM.CREATE.ORIG", ORIGIN)
    await mirror(lasting)
    await source_into(lasting, "ALSO")
    await lasting.publish("orig.a", 50)
    await both_hold(lasting, 50)
    await lasting.engine.kill()
    await lasting.engine.start()
    await lasting.publish("orig.b", 50, start=50)
    await both_hold(lasting, 100)
    assert await unlike(lasting) == []


async def test_both_kinds_continue_after_the_link_was_cut(sites: Sites) -> None:
    await sites.lake("STREAM.CREATE.ORIG", ORIGIN)
    await mirror(sites)
    await source_into(sites, "ALSO")
    await sites.publish("orig.a", 50)
    await both_hold(sites, 50)
    await sites.link.cut()
    await sites.publish("orig.b", 50, start=50)
    await sites.link.restore()
    await sites.publish("orig.c", 10, start=100)
    await both_hold(sites, 110)
    assert await unlike(sites) == []


async def test_a_source_starts_over_when_its_origin_was_re_created(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    await together.publish("orig.old", 5)
    await source(together)
    await together.holds("COPY", 5)
    await together.link.cut()
    await together.lake("STREAM.DELETE.ORIG")
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    await together.publish("orig.new", 3)
    await together.link.restore()
    await together.holds("COPY", 8)
    found = [header.split(" ") for header in source_headers(await together.messages("COPY"))]
    assert [fields[1] for fields in found] == ["1", "2", "3", "4", "5", "1", "2", "3"]
    assert len({fields[5] for fields in found}) == 2


async def test_nothing_is_left_behind_when_copies_are_removed(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", ORIGIN)
    await together.publish("orig.a", 5)
    await mirror(together)
    await source_into(together, "ALSO")
    await together.holds("COPY", 5)
    await together.holds("ALSO", 5)
    # Consumers of replication are not shown; what is seen of them is that somebody lets them go.
    assert (await together.lake("STREAM.INFO.ORIG"))["state"]["consumer_count"] == 0
    await together.edge("STREAM.DELETE.COPY")
    await together.edge("STREAM.DELETE.ALSO")

    async def gone() -> bool:
        return together.engine.log.count("inactive, removing it") == 2

    await until(gone, "both consumers go", together.tell)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_a_message_of_a_queue_stays_until_the_other_side_has_stored_it(
    sites: Sites, retention: str
) -> None:
    await sites.lake("STREAM.CREATE.ORIG", {**ORIGIN, "retention": retention})
    await source(sites)

    async def upgraded() -> bool:
        return len((await sites.lake("CONSUMER.LIST.ORIG"))["consumers"]) == 1

    await until(upgraded, "a durable consumer for the source", sites.tell)
    (consumer,) = (await sites.lake("CONSUMER.LIST.ORIG"))["consumers"]
    assert consumer["config"]["ack_policy"] == "flow_control"
    assert consumer["config"]["durable_name"] == consumer["name"]
    assert "direct" not in consumer["config"]
    await sites.publish("orig.a", 40)
    await sites.holds("COPY", 40)
    await emptied(sites)
    await sites.link.cut()
    await sites.publish("orig.b", 40, start=40)
    # The interest of a durable consumer holds while the one who made it is away.
    assert (await sites.lake("STREAM.INFO.ORIG"))["state"]["messages"] == 40
    await sites.link.restore()
    await sites.holds("COPY", 80)
    await emptied(sites)
    assert texts(await sites.messages("COPY")) == [str(number) for number in range(80)]


async def emptied(sites: Sites) -> None:
    """Return once the lake's stream holds nothing more."""

    async def empty() -> bool:
        return bool((await sites.lake("STREAM.INFO.ORIG"))["state"]["messages"] == 0)

    await until(empty, "the origin is empty", sites.tell)


@pytest.mark.parametrize("killed", ["engine", "server"])
async def test_a_queue_loses_and_repeats_nothing_when_either_side_is_killed(
    together: Sites, killed: str
) -> None:
    await together.lake("STREAM.CREATE.ORIG", {**ORIGIN, "retention": "workqueue"})
    await source(together)
    await together.publish("orig.a", 20)
    await together.holds("COPY", 20)
    await together.pour("orig.b", 5_000, start=20)
    side = together.engine if killed == "engine" else together.server
    await side.kill()
    await side.start()
    # The engine reconnects by itself; until it has, a publish finds no responders.
    await together.lake("STREAM.INFO.ORIG")
    await together.publish("orig.c", 20, start=5_020)
    await together.holds("COPY", 5_040)
    await emptied(together)
    assert texts(await together.messages("COPY")) == [str(number) for number in range(5_040)]


async def test_a_queue_feeds_a_source_past_its_window_of_unacknowledged_messages(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", {**ORIGIN, "retention": "workqueue"})
    await together.pour("orig.a", 20_000)
    await source(together)
    await together.holds("COPY", 20_000)
    await emptied(together)


async def test_removing_the_source_of_a_queue_removes_its_consumer(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", {**ORIGIN, "retention": "workqueue"})
    await source(together)
    await together.publish("orig.a", 3)
    await together.holds("COPY", 3)
    await together.edge("STREAM.DELETE.COPY")

    async def gone() -> bool:
        return not (await together.lake("CONSUMER.NAMES.ORIG"))["consumers"]

    await until(gone, "its durable consumer goes", together.tell)


async def test_a_source_uses_a_consumer_that_was_created_for_it(together: Sites) -> None:
    await together.lake("STREAM.CREATE.ORIG", {**ORIGIN, "retention": "workqueue"})
    made = {
        "stream_name": "ORIG",
        "config": {
            "durable_name": "for_edge",
            "ack_policy": "flow_control",
            "deliver_subject": "to.edge",
            "flow_control": True,
            "idle_heartbeat": 1_000_000_000,
            "max_ack_pending": 500,
        },
    }
    await together.lake("CONSUMER.DURABLE.CREATE.ORIG.for_edge", made)
    await together.pour("orig.a", 2_000)
    await source(together, consumer={"name": "for_edge", "deliver_subject": "to.edge"})
    await together.holds("COPY", 2_000)
    await emptied(together)
    assert (await together.lake("CONSUMER.NAMES.ORIG"))["consumers"] == ["for_edge"]
