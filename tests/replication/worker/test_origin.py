"""Ranges read through the API of a real nats-server and of a Headwater engine, by either way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest.mock import patch

import nats
import pytest

from headwater.errors import BusError
from headwater.model.columns import columns_of
from headwater.model.upstream import hash8
from headwater.replication.worker import direct_reader, origin, push_reader
from headwater.replication.worker.origin import OriginReader, identity_of
from identities import make_certificates
from replication.origins import KINDS, PREFIX, Origin, Site, lasting_origin, proxied
from replication.works import messages_in
from servers import nats_server
from table.samples import message

DIRECT = pytest.mark.parametrize("direct", [True, False], ids=["direct gets", "push consumer"])


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with lasting_origin(request.param, tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture
async def site(shared: Origin, tmp_path: Path) -> AsyncIterator[Site]:
    """A JetStream of each kind."""
    async with shared.site(tmp_path) as running:
        yield running


def test_messages_become_columns_and_come_back() -> None:
    messages = [message(seq) for seq in (1, 2, 9)]
    assert messages_in(columns_of(messages)) == messages


def test_identity_is_the_hash_of_when_a_stream_was_made() -> None:
    assert identity_of("2026-11-15T07:51:18.123Z") == hash8("2026-11-15T07:51:18.123Z")
    assert identity_of("yesterday") == ""


@DIRECT
async def test_every_kind_of_message_is_read_as_it_is_stored(site: Site, direct: bool) -> None:
    await site.make(allow_direct=direct)
    await site.publish("orders.plain", b"one")
    await site.publish("orders.empty")
    await site.publish("orders.headers", b"two", {"Color": "red", "Nats-Msg-Id": "7"})
    await site.publish("orders.republished", b"", {"Nats-Stream": "OTHER", "Nats-Sequence": "99"})
    await site.publish("orders.lines", b"a\r\nMSG x 1 2\r\n\r\n")
    await site.publish("orders.large", bytes(range(256)) * 3000)
    stored = await site.remember()
    assert len(stored) == 6
    reading = await site.read(1, 6)
    assert reading.messages == stored
    assert reading.through == 6


@DIRECT
async def test_gaps_and_deleted_ends_are_passed_over(site: Site, direct: bool) -> None:
    await site.make(allow_direct=direct)
    for seq in range(1, 31):
        await site.publish(f"orders.{seq % 3}", b"%d" % seq)
    gone = {1, 2, 7, 8, 9, 15, 29, 30}
    for seq in gone:
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":%d}' % seq)
    reading = await site.read(1, 30)
    assert reading.seqs == [seq for seq in range(1, 31) if seq not in gone]
    assert reading.through == 30
    assert (await site.read(29, 30)).through == 30
    assert (await site.read(7, 9)).seqs == []
    assert (await site.read(5, 11)).seqs == [5, 6, 10, 11]


@DIRECT
async def test_filters_are_left_to_the_origin_and_the_range_is_covered_all_the_same(
    site: Site, direct: bool
) -> None:
    await site.make(allow_direct=direct)
    for seq in range(1, 31):
        await site.publish(f"orders.{seq % 3}.x", b"%d" % seq)
    one = await site.read(2, 29, "orders.1.*")
    assert one.seqs == [seq for seq in range(2, 30) if seq % 3 == 1]
    assert one.through == 29
    none = await site.read(2, 29, "orders.none")
    assert (none.seqs, none.through) == ([], 29)
    two = await site.read(2, 29, "orders.1.*", "orders.2.>")
    assert {seq for seq in range(2, 30) if seq % 3} <= set(two.seqs)
    assert two.through == 29


async def test_a_reading_may_end_in_the_midst_of_a_batch_that_is_long(site: Site) -> None:
    await site.make(allow_direct=True)
    for _ in range(2_000):
        await site.publish("orders.a", b"x" * 300)
    for bound in (1, 50, 51, 333, 1_999):
        some = await site.read(1, 2_000, max_messages=bound)
        assert (some.seqs, some.through) == (list(range(1, bound + 1)), bound)


@DIRECT
async def test_bounds_end_a_reading_early_and_it_says_how_far_it_came(site: Site, direct: bool) -> None:
    await site.make(allow_direct=direct)
    for _ in range(40):
        await site.publish("orders.a", b"x" * 1000)
    few = await site.read(3, 40, max_messages=7)
    assert (few.seqs, few.through) == (list(range(3, 10)), 9)
    small = await site.read(1, 40, max_bytes=2500)
    assert (small.seqs, small.through) == ([1, 2, 3], 3)
    tiny = await site.read(1, 40, max_bytes=1)
    assert (tiny.seqs, tiny.through) == ([1], 1)


@DIRECT
async def test_many_batches_follow_each_other(site: Site, direct: bool) -> None:
    await site.make(allow_direct=direct)
    stream = site.client.jetstream()
    for start in range(0, 3000, 500):
        await asyncio.gather(*(stream.publish("orders.a", b"%d" % n) for n in range(start, start + 500)))
    with (
        patch.object(origin, "FEW", 10_000),
        patch.object(direct_reader, "BATCH_MESSAGES", 100),
        patch.object(direct_reader, "BATCH_BYTES", 800),
    ):
        reading = await site.read(1, 3000)
    assert reading.seqs == list(range(1, 3001))
    assert reading.through == 3000


async def test_many_messages_of_every_kind_are_read_in_bulk_as_they_are_stored(site: Site) -> None:
    await site.make(allow_direct=True)
    stream = site.client.jetstream()
    data = [b"", b"plain", b"x" * 700, b"a\r\nMSG x 1 2\r\n\r\nb", bytes(range(256)) * 40]
    headers = [None, None, {"Color": "red"}, {"Nats-Msg-Id": "no", "Long": "x" * 300}]
    for start in range(0, 3000, 300):
        numbers = range(start, start + 300)
        await asyncio.gather(
            *(
                stream.publish(
                    f"orders.{'b' * (1 + n % 7)}.{n}",
                    data[n % 5],
                    headers={**sent, "Nats-Msg-Id": str(n)} if (sent := headers[n % 4]) else None,
                )
                for n in numbers
            )
        )
    for seq in (1, 2, 77, 1500, 2999, 3000):
        await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":%d}' % seq)
    reader = OriginReader(site.origin(), 1, 3000, ())
    parts = await asyncio.to_thread(list, reader)
    stored = await site.remember()
    assert [each for part in parts for each in messages_in(part.columns())] == stored
    assert reader.through == 3000
    assert len(parts) < 1000, "most of them came many at a time"
    some = await site.read(1, 3000, "orders.*.8", "orders.bbb.>")
    wanted = [each for each in stored if each.subject == b"orders.bb.8" or b".bbb." in each.subject]
    # More may come, which the target leaves out: direct gets take one filter at the most.
    assert [each for each in some.messages if each in wanted] == wanted


async def test_where_no_consumer_may_be_made_a_long_range_is_read_by_direct_gets() -> None:
    refused = {"error": {"code": 400, "err_code": 10026, "description": "maximum consumers limit reached"}}
    with patch.object(origin, "FEW", 0):
        async with proxied() as (site, proxy):
            proxy.answers["CONSUMER.CREATE"] = refused
            reading = await site.read(1, 10, api_prefix=PREFIX)
        async with proxied(allow_direct=False) as (site, proxy):
            proxy.answers["CONSUMER.CREATE"] = refused
            with pytest.raises(BusError, match="maximum consumers limit reached"):
                await site.read(1, 10, api_prefix=PREFIX)
    assert (reading.seqs, reading.through) == (list(range(1, 11)), 10)


async def test_where_the_consumer_ends_too_early_direct_gets_continue() -> None:
    with patch.object(origin, "FEW", 0):
        async with proxied() as (site, proxy):
            proxy.answers["CONSUMER.CREATE"] = {"name": "behind", "num_pending": 0}
            reading = await site.read(1, 10, api_prefix=PREFIX)
    assert (reading.seqs, reading.through) == (list(range(1, 11)), 10)


@pytest.mark.parametrize(
    "exported",
    ["DIRECT.GET.ORDERS", "DIRECT.GET.ORDERS CONSUMER.>"],
    ids=["no consumers", "no deliveries"],
)
async def test_an_account_that_exports_direct_gets_alone_is_read_by_those(exported: str) -> None:
    names = ["STREAM.INFO.ORDERS", "STREAM.MSG.GET.ORDERS", *exported.split()]
    exports = "".join(f'{{ service: "$JS.API.{name}", response: stream }}\n' for name in names)
    imports = "".join(
        f'{{ service: {{ account: ACME, subject: "$JS.API.{name}" }}, to: "$JS.acme.API.{name}" }}\n'
        for name in names
    )
    config = f"""
        accounts {{
          ACME {{ jetstream: enabled, users: [{{ user: acme, password: acme }}], exports: [{exports}] }}
          LAKE {{ users: [{{ user: lake, password: lake }}], imports: [{imports}] }}
        }}"""
    async with nats_server(config, jetstream=True) as server:
        client = await nats.connect(server.client_url, user="acme", password="acme")
        site = Site(server.client_url, client)
        await site.make(allow_direct=True)
        for seq in range(1, 11):
            await site.publish("orders.a", b"%d" % seq)
        with patch.object(origin, "FEW", 0), patch.object(push_reader, "FIRST_WORD_S", 3600):
            reading = await site.read(1, 10, api_prefix="$JS.acme.API", user="lake", password="lake")
        assert (await site.ask("STREAM.INFO.ORDERS"))["state"]["consumer_count"] == 0
        await client.close()
    assert (reading.seqs, reading.through) == (list(range(1, 11)), 10)


async def test_a_user_who_may_not_answer_flow_control_gets_the_rest_by_direct_gets() -> None:
    config = """
        jetstream: enabled
        authorization { users: [
          { user: all, password: all }
          { user: some, password: some, permissions: { publish: { deny: "$JS.FC.>" } } }
        ] }"""
    async with nats_server(config, jetstream=True) as server:
        client = await nats.connect(server.client_url, user="all", password="all")
        site = Site(server.client_url, client)
        await site.make(allow_direct=True)
        for _ in range(20):
            await asyncio.gather(*(site.publish("orders.a", bytes(500_000)) for _ in range(4)))
        with patch.object(origin, "FEW", 0):
            reading = await site.read(1, 80, user="some", password="some")
        await client.close()
    assert (reading.seqs, reading.through) == (list(range(1, 81)), 80)


async def test_many_messages_come_through_a_connection_by_tls(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    async with nats_server(certificates.config(""), jetstream=True) as server:
        context = ssl.create_default_context(cafile=certificates.ca)
        client = await nats.connect(server.client_url, tls=context)
        site = Site(server.client_url, client)
        await site.make(allow_direct=False)
        for _ in range(15):
            await asyncio.gather(*(site.publish("orders.a", bytes(10_000)) for _ in range(200)))
        reading = await site.read(1, 3000, tls_ca=certificates.ca)
        await client.close()
    assert (reading.seqs, reading.through) == (list(range(1, 3001)), 3000)


async def test_flow_control_is_answered_so_that_much_data_comes_through(site: Site) -> None:
    await site.make(allow_direct=False)
    stream = site.client.jetstream()
    data = bytes(500_000)
    for _ in range(20):
        await asyncio.gather(*(stream.publish("orders.a", data) for _ in range(4)))
    reading = await site.read(1, 80)
    assert reading.seqs == list(range(1, 81))


@DIRECT
async def test_nothing_is_left_behind_at_the_origin(site: Site, direct: bool) -> None:
    await site.make(allow_direct=direct)
    for _ in range(10):
        await site.publish("orders.a", b"x")
    await site.read(1, 10)
    await site.read(1, 10, max_messages=3)
    with patch.object(origin, "FEW", 0):
        await site.read(1, 10, max_messages=3)
    info = await site.ask("STREAM.INFO.ORDERS")
    assert info["state"]["consumer_count"] == 0
    assert info["state"]["messages"] == 10
    assert (await site.ask("CONSUMER.NAMES.ORDERS"))["consumers"] in (None, [])


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_an_origin_that_lets_messages_go_is_refused_in_words(site: Site, retention: str) -> None:
    await site.make(retention=retention)
    with pytest.raises(BusError, match=f"{retention} retention"):
        await site.read(1, 10)


async def test_a_stream_that_is_not_there_is_an_error(site: Site) -> None:
    with pytest.raises(BusError, match="stream not found"):
        await site.read(1, 10)


async def test_a_stream_re_created_since_the_plan_is_detected(site: Site) -> None:
    await site.make()
    await site.publish("orders.a", b"x")
    created = (await site.ask("STREAM.INFO.ORDERS"))["created"]
    assert (await site.read(1, 1, identity=hash8(created))).seqs == [1]
    with pytest.raises(BusError, match="was re-created"):
        await site.read(1, 1, identity="other")


async def test_a_follower_that_is_behind_and_has_nothing_hides_nothing() -> None:
    async with proxied() as (site, proxy):
        proxy.direct_get = lambda body: [(b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]
        reading = await site.read(1, 10, api_prefix=PREFIX)
    assert (reading.seqs, reading.through) == (list(range(1, 11)), 10)


async def test_what_only_the_leader_has_is_left_for_the_next_time() -> None:
    async with proxied() as (site, proxy):
        for seq in range(6, 11):
            await site.ask("STREAM.MSG.DELETE.ORDERS", b'{"seq":%d}' % seq)
        proxy.answers["STREAM.MSG.GET"] = {"message": {"seq": 8}}
        reading = await site.read(1, 10, api_prefix=PREFIX)
    assert (reading.seqs, reading.through) == ([1, 2, 3, 4, 5], 5)


async def test_a_stream_re_created_while_it_is_read_is_detected() -> None:
    async with proxied() as (site, proxy):
        info = await site.ask("STREAM.INFO.ORDERS")
        proxy.answers["STREAM.INFO"] = info
        reader = OriginReader(site.origin(api_prefix=PREFIX), 1, 10, ())
        parts = iter(reader)
        await asyncio.to_thread(next, parts)
        proxy.answers["STREAM.INFO"] = {**info, "created": "2020-01-01T00:00:00Z"}
        with pytest.raises(BusError, match="while it was read"):
            await asyncio.to_thread(list, parts)
