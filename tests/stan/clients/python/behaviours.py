# mypy: ignore-errors
"""What users of asyncio-nats-streaming rely on, tested with the real client: `behaviours.py URL CLUSTER`.

Writes one line of JSON for each behaviour: its name, and what went wrong if anything did.
"""

import asyncio
import json
import sys
import time
import traceback

from nats.aio.client import Client as NATS
from stan.aio.client import Client as STAN
from stan.aio.errors import ErrConnectReqTimeout, StanError

WITHIN_S = 60
URL, CLUSTER = sys.argv[1], sys.argv[2]


class Site:
    """Clients of one behaviour, and all that is left of them at its end."""

    def __init__(self, name):
        self.name = name
        self.opened = []

    def channel(self, part="x"):
        """Return a channel that no other behaviour uses."""
        return f"py.{self.name}.{part}"

    async def nats(self):
        """Return a NATS connection."""
        nats = NATS()
        await nats.connect(servers=[URL], max_reconnect_attempts=100)
        self.opened.append(nats)
        return nats

    async def stan(self, client_id="me", nats=None, **options):
        """Return a STAN client."""
        stan = STAN()
        options.setdefault("connect_timeout", WITHIN_S)
        await stan.connect(CLUSTER, f"py-{self.name}-{client_id}", nats=nats or await self.nats(), **options)
        return stan

    async def close(self):
        """Leave nothing open."""
        for nats in self.opened:
            await nats.close()


class Kept:
    """Keeps the messages of a subscription."""

    def __init__(self):
        self.messages = []

    async def __call__(self, message):
        self.messages.append(message)

    @property
    def seqs(self):
        """Return the sequences in the order of arrival."""
        return [message.seq for message in self.messages]

    async def got(self, count):
        """Return the messages once there are so many."""
        await until(lambda: len(self.messages) >= count)
        return self.messages


async def until(condition):
    """Return once the condition holds."""
    end = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end, "did not come to pass in time"
        await asyncio.sleep(0.005)


async def refused(work, kind=StanError):
    """Return the error with which something is refused."""
    try:
        await work
    except kind as error:
        return error
    raise AssertionError("was not refused")


async def connect_and_close(site):
    stan = await site.stan()
    subjects = (stan._pub_prefix, stan._sub_req_subject, stan._unsub_req_subject)
    assert all((*subjects, stan._close_req_subject, stan._sub_close_req_subject)), subjects
    nats = stan._nc
    await stan.close()
    assert nats.is_connected
    await refused(stan.close())


async def acknowledged_publishes(site):
    stan = await site.stan()
    for _ in range(256):
        ack = await stan.publish(site.channel(), b"hi")
        assert ack.guid
        assert ack.error == ""
    assert stan._pub_ack_map == {}


async def publishes_that_do_not_wait(site):
    stan, acks = await site.stan(), []

    async def on_ack(ack):
        acks.append(ack)

    for _ in range(1024):
        await stan.publish(site.channel(), b"hi", ack_handler=on_ack)
    await until(lambda: len(acks) == 1024)
    assert not any(ack.error for ack in acks)


async def no_more_unacknowledged_publishes_than_allowed(site):
    stan, acks, go = await site.stan(max_pub_acks_inflight=5), [], asyncio.Event()

    async def on_ack(ack):
        acks.append(ack)
        await go.wait()

    async def publish_all():
        for _ in range(10):
            await stan.publish(site.channel(), b"hi", ack_handler=on_ack)

    publishing = asyncio.create_task(publish_all())
    await until(lambda: acks)
    go.set()
    await publishing
    await until(lambda: len(acks) == 10)


async def new_messages_in_order(site):
    stan, kept = await site.stan(), Kept()
    await stan.subscribe(site.channel(), cb=kept)
    for n in range(1, 11):
        await stan.publish(site.channel(), f"{n}".encode())
    await kept.got(10)
    assert kept.seqs == list(range(1, 11))
    assert [m.data for m in kept.messages] == [f"{n}".encode() for n in range(1, 11)]
    assert all(m.timestamp for m in kept.messages)


async def nothing_after_unsubscribe(site):
    stan, kept = await site.stan(), Kept()
    subscription = await stan.subscribe(site.channel(), cb=kept)
    for _ in range(5):
        await stan.publish(site.channel(), b"x")
    await kept.got(5)
    await subscription.unsubscribe()
    await refused(subscription.unsubscribe())
    for _ in range(5):
        await stan.publish(site.channel(), b"x")
    assert len(kept.messages) == 5


async def a_slow_subscriber_holds_up_nobody(site):
    stan, others, go, slow = await site.stan(), [Kept(), Kept()], asyncio.Event(), []

    async def slowly(message):
        slow.append(message)
        await go.wait()

    await stan.subscribe(site.channel(), cb=slowly)
    for kept in others:
        await stan.subscribe(site.channel(), cb=kept)
    for _ in range(20):
        await stan.publish(site.channel(), b"x")
    for kept in others:
        await kept.got(20)
    assert len(slow) == 1
    go.set()
    await until(lambda: len(slow) == 20)


async def close_leaves_no_subscriptions(site):
    stan = await site.stan()
    for _ in range(3):
        await stan.subscribe(site.channel(), cb=Kept())
    nats = stan._nc
    await stan.close()
    assert len(nats._subs) <= 1, nats._subs


async def an_id_in_use_is_refused(site):
    stan = await site.stan()
    await refused(site.stan())
    assert (await stan.publish(site.channel(), b"x")).error == ""


async def an_unknown_cluster_does_not_answer(site):
    stan = STAN()
    connecting = stan.connect("nobody", "me", nats=await site.nats(), connect_timeout=0.2)
    await refused(connecting, ErrConnectReqTimeout)


async def who_leaves_heartbeats_unanswered_is_replaced(site):
    first = await site.stan()

    async def silent(message):
        pass

    first._process_heartbeats = silent
    await first._nc.unsubscribe(first._hb_inbox_sid)
    first._hb_inbox_sid = await first._nc.subscribe(first._hb_inbox, cb=silent)
    await first._nc.flush()
    second = await site.stan()
    await second.close()
    await refused(first.close())


async def a_dead_client_is_replaced_after_a_while(site):
    first = await site.stan()
    await first._nc.close()
    await refused(site.stan(connect_timeout=0.1), ErrConnectReqTimeout)
    second = await until_connected(site)
    assert (await second.publish(site.channel(), b"x")).error == ""


async def until_connected(site):
    """Return a client of the id once it can be had."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            return await site.stan()
        except StanError:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)


async def a_replaced_client_learns_of_it(site):
    lost = []

    async def on_lost(error):
        lost.append(error)

    first = await site.stan(ping_interval=1, ping_max_out=100, conn_lost_cb=on_lost)
    await first._nc.unsubscribe(first._hb_inbox_sid)
    await first._nc.flush()
    await site.stan()
    await until(lambda: lost)
    assert str(lost[0]) == "client has been replaced or is no longer registered", lost[0]


async def durables_and_groups_resume(site):
    stan, channel = await site.stan(), site.channel()
    kinds = {
        "durable": {"durable_name": "d"},
        "durable group": {"durable_name": "d", "queue": "g"},
        "group": {"queue": "g"},
        "plain": {},
    }
    kept = {name: Kept() for name in kinds}
    for name, options in kinds.items():
        await stan.subscribe(channel, cb=kept[name], start_at="last_received", **options)
    for _ in range(5):
        await stan.publish(channel, b"x")
    for one in kept.values():
        await one.got(5)
    await stan.close()
    stan = await site.stan(nats=await site.nats())
    for _ in range(5):
        await stan.publish(channel, b"x")
    again = Kept()
    await stan.subscribe(channel, cb=again, durable_name="d", start_at="first")
    await again.got(5)
    assert again.seqs == [6, 7, 8, 9, 10]
    await refused(stan.subscribe(channel, cb=Kept(), durable_name="d"))
    everything = Kept()
    await stan.subscribe(channel, cb=everything, start_at="first")
    await everything.got(10)
    assert everything.seqs == list(range(1, 11))


async def a_closed_durable_gets_nothing(site):
    stan, kept = await site.stan(), Kept()
    subscription = await stan.subscribe(site.channel(), cb=kept, durable_name="d")
    await stan.publish(site.channel(), b"x")
    await kept.got(1)
    await subscription.close()
    await stan.publish(site.channel(), b"x")
    assert kept.seqs == [1]
    await refused(subscription.close())


async def a_group_shares_evenly(site):
    stan, members = await site.stan(), [Kept() for _ in range(5)]
    for member in members:
        await stan.subscribe(site.channel(), cb=member, queue="g")
    for n in range(2048):
        if n % 64:
            await stan.publish(site.channel(), b"x", ack_handler=Kept())
        else:
            await stan.publish(site.channel(), b"x")
    await until(lambda: sum(len(m.messages) for m in members) >= 2048)
    assert sorted(seq for m in members for seq in m.seqs) == list(range(1, 2049))
    assert all(len(m.messages) > 100 for m in members), [len(m.messages) for m in members]


async def a_time_to_begin_at(site):
    stan, channel = await site.stan(), site.channel()
    for _ in range(11):
        await stan.publish(channel, b"old")
    await asyncio.sleep(3)
    between = time.time() - 1.5
    for _ in range(5):
        await stan.publish(channel, b"new")
    # The client sends an age in whole seconds, rounded down: at most a second later than what is asked for.
    for options in ({}, {"queue": "g"}, {"durable_name": "d"}, {"durable_name": "d", "queue": "g"}):
        kept = Kept()
        await stan.subscribe(channel, cb=kept, start_at="time", time=between, **options)
        await kept.got(5)
        assert kept.seqs == [12, 13, 14, 15, 16]
    everything = Kept()
    await stan.subscribe(channel, cb=everything, start_at="time", time=time.time() - 3600)
    await everything.got(16)
    assert everything.seqs == list(range(1, 17))


async def a_sequence_to_begin_at(site):
    stan, channel = await site.stan(), site.channel()
    for _ in range(16):
        await stan.publish(channel, b"x")
    some, everything = Kept(), Kept()
    await stan.subscribe(channel, cb=some, start_at="sequence", sequence=12)
    await stan.subscribe(channel, cb=everything, start_at="sequence", sequence=1)
    await some.got(5)
    await everything.got(16)
    assert some.seqs == [12, 13, 14, 15, 16]


async def one_at_a_time_with_acks_by_hand(site):
    stan, kept = await site.stan(), Kept()

    async def acking(message):
        kept.messages.append(message)
        await stan.ack(message)

    await stan.subscribe(site.channel(), cb=acking, manual_acks=True, max_inflight=1)
    for _ in range(100):
        await stan.publish(site.channel(), b"x", ack_handler=Kept())
    await kept.got(100)
    assert kept.seqs == list(range(1, 101))


async def nothing_more_without_acks(site):
    stan, kept = await site.stan(), Kept()
    await stan.subscribe(site.channel(), cb=kept, manual_acks=True, max_inflight=1, ack_wait=1)
    for _ in range(5):
        await stan.publish(site.channel(), b"x")
    await kept.got(3)
    assert kept.seqs[:3] == [1, 1, 1]
    assert [m.proto.redelivered for m in kept.messages[:3]] == [False, True, True]


async def a_backlog_waits_in_the_client(site):
    stan, channel, go = await site.stan(), site.channel(), asyncio.Event()
    for _ in range(100):
        await stan.publish(channel, b"x", ack_handler=Kept())
    await stan.publish(channel, b"x")

    async def slowly(message):
        await go.wait()

    subscription = await stan.subscribe(channel, cb=slowly, start_at="first")
    await until(lambda: subscription.pending_queue_size == 100)
    go.set()
    await until(lambda: subscription.pending_queue_size == 0)


BEHAVIOURS = [
    connect_and_close,
    acknowledged_publishes,
    publishes_that_do_not_wait,
    no_more_unacknowledged_publishes_than_allowed,
    new_messages_in_order,
    nothing_after_unsubscribe,
    a_slow_subscriber_holds_up_nobody,
    close_leaves_no_subscriptions,
    an_id_in_use_is_refused,
    an_unknown_cluster_does_not_answer,
    who_leaves_heartbeats_unanswered_is_replaced,
    a_dead_client_is_replaced_after_a_while,
    a_replaced_client_learns_of_it,
    durables_and_groups_resume,
    a_closed_durable_gets_nothing,
    a_group_shares_evenly,
    a_time_to_begin_at,
    a_sequence_to_begin_at,
    one_at_a_time_with_acks_by_hand,
    nothing_more_without_acks,
    a_backlog_waits_in_the_client,
]


async def tried(behaviour):
    """Return what is wrong with a behaviour, None if nothing is."""
    site = Site(behaviour.__name__)
    try:
        await asyncio.wait_for(behaviour(site), 2 * WITHIN_S)
        return None
    except Exception:
        return traceback.format_exc()
    finally:
        await site.close()


async def main():
    """Try all of them at once: each has channels and clients of its own."""

    async def report(behaviour):
        problem = await tried(behaviour)
        print(json.dumps({"behaviour": behaviour.__name__, "problem": problem}), flush=True)

    await asyncio.gather(*(report(behaviour) for behaviour in BEHAVIOURS))


asyncio.run(main())
