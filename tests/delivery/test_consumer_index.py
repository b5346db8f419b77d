"""Consumers are found by name, by ack subject and by what their filters match."""

from __future__ import annotations

import msgspec
import pytest

from delivery.deliveries import Desk, delivered
from headwater.delivery.consumer import Consumer
from headwater.delivery.consumer_index import ConsumerIndex
from headwater.stream.retention.removal import Removal


async def test_hidden_consumers_are_not_listed(desk: Desk) -> None:
    desk.add("B")
    desk.add("A")
    desk.add("HIDDEN", deliver_subject="to", direct=True)
    assert [consumer.name for consumer in desk.consumers.listed] == ["A", "B"]
    assert len(desk.consumers) == 3


async def test_a_removal_is_checked_only_by_matching_consumers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers = {name: desk.add(name, filter_subject=name) for name in ("a", "b", "c")}
    changed = desk.add("d", filter_subject="a")
    await desk.publish(b"a", b"b")
    await delivered(desk, consumers["a"], 1)
    await delivered(desk, changed, 1)
    changed.reconfigure(msgspec.structs.replace(changed.config, filter_subject="c"))
    looked: list[str] = []
    on_removed = Consumer.on_removed

    def looking(self: Consumer, low: int, high: int, removal: Removal) -> None:
        looked.append(self.name)
        on_removed(self, low, high, removal)

    monkeypatch.setattr(Consumer, "on_removed", looking)
    assert await desk.stream.retention.remove(1)
    assert sorted(looked) == ["a", "d"]
    assert consumers["a"].state.num_ack_pending == changed.state.num_ack_pending == 0


async def test_a_consumer_is_found_until_it_is_removed(desk: Desk) -> None:
    index, consumer = ConsumerIndex(), desk.make("C", filter_subject="a.*")
    index.add(consumer)
    assert index.get("C") == consumer
    assert [index.by_key[key] for key in consumer.acks.keys] == [consumer, consumer]
    assert list(index.with_tally(consumer.tally)) == [consumer]
    assert ("C" in index, list(index), index.num_listed) == (True, [consumer], 1)
    assert index.concerned([b"other"]) == set()
    index.remove(consumer)
    assert ("C" in index, list(index), index.num_listed, index.by_key) == (False, [], 0, {})
    assert list(index.with_tally(consumer.tally)) == []


async def test_the_configs_are_a_live_view(desk: Desk) -> None:
    configs = desk.consumers.configs
    assert dict(configs) == {}
    consumer = desk.add("C")
    assert dict(configs) == {"C": consumer.config}
    consumer.reconfigure(msgspec.structs.replace(consumer.config, description="new"))
    assert (configs["C"].description, len(configs)) == ("new", 1)
