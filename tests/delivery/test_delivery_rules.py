"""Tests of delivery.delivery_rules."""

from __future__ import annotations

import msgspec

from headwater.delivery.delivery_rules import DeliveryRules
from headwater.delivery.outstanding import NEVER
from headwater.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy

CONFIG = ConsumerConfig(name="c", ack_policy=AckPolicy.EXPLICIT, ack_wait=30, max_deliver=-1)


def rules(**fields: object) -> DeliveryRules:
    return DeliveryRules.of(msgspec.structs.replace(CONFIG, **fields))


def test_a_deadline_is_the_ack_wait_or_the_backoff_of_the_delivery() -> None:
    assert [rules().deadline(count, 100) for count in (0, 1, 9)] == [130, 130, 130]
    assert [rules(backoff=(1, 5)).deadline(count, 100) for count in (0, 1, 9)] == [101, 105, 105]
    assert rules(ack_wait=0).deadline(0, 100) == NEVER
    assert rules(ack_wait=NEVER).deadline(0, 100) == NEVER, "it does not overflow"


def test_deliveries_end_at_the_limit() -> None:
    assert not rules().is_last(1_000_000)
    assert [rules(max_deliver=3).is_last(count) for count in (2, 3, 4)] == [False, True, True]
    assert (rules(max_deliver=1).delivers_once, rules(max_deliver=2).delivers_once) == (True, False)


def test_room_is_what_the_limit_leaves_and_unlimited_without_acks() -> None:
    assert [rules(max_ack_pending=10).room(pending) for pending in (0, 9, 10, 11)] == [10, 1, 0, 0]
    assert rules(max_ack_pending=-1).room(5) is None
    assert rules(max_ack_pending=10, ack_policy=AckPolicy.NONE).room(5) is None


def test_only_a_consumer_from_the_first_message_on_takes_all() -> None:
    assert rules(deliver_policy=DeliverPolicy.ALL).takes_all
    assert not rules(deliver_policy=DeliverPolicy.NEW).takes_all
