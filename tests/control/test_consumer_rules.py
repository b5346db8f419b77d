"""What the rules for consumers do beyond answering as nats-server does: names, replication, limits."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.control.account import AccountLimits
from headwater.control.consumer_rules import CreateAddress, check_address, check_create, parse_address
from headwater.errors import ApiError
from headwater.model.consumer import AckPolicy, ConsumerConfig, CreateRequest
from headwater.model.stream import Retention, StreamConfig

STREAM = StreamConfig(name="S", subjects=("s.>",))
WORKQUEUE = StreamConfig(name="S", subjects=("s.>",), retention=Retention.WORKQUEUE)


def request(**config: Any) -> CreateRequest:
    """Return a request for a consumer of S."""
    return CreateRequest(stream_name="S", config=ConsumerConfig(**config))


def created(*configs: dict[str, Any], stream: StreamConfig = STREAM) -> dict[str, ConsumerConfig]:
    """Return the consumers that these configs lead to, one after the other."""
    existing: dict[str, ConsumerConfig] = {}
    for config in configs:
        stored = check_create(request(**config), stream, existing)
        existing[stored.name] = stored
    return existing


@pytest.mark.parametrize(
    ("subject", "address"),
    [
        ("CREATE.S", CreateAddress("S")),
        ("CREATE.S.c", CreateAddress("S", "c")),
        ("CREATE.S.c.s.a.>", CreateAddress("S", "c", "s.a.>")),
        ("DURABLE.CREATE.S.c", CreateAddress("S", "c", is_durable=True)),
    ],
)
def test_a_subject_gives_the_address(subject: str, address: CreateAddress) -> None:
    assert parse_address(subject) == address


def test_the_name_of_the_subject_is_the_consumer_s() -> None:
    addressed = check_address(request(name="other"), CreateAddress("S", "c"))
    assert addressed.config.name == "c"


def test_a_name_is_made_up_where_none_is_given() -> None:
    first, second = created({}, {})
    assert first != second
    assert len(first) == len(second) == 8


def test_a_source_on_a_limits_stream_gets_a_name_of_its_own_each_time() -> None:
    source: dict[str, Any] = {
        "name": "JS_SRC_x",
        "direct": True,
        "sourcing": True,
        "deliver_subject": "d",
        "max_deliver": 1,
    }
    names = list(created(source, source))
    assert len(names) == 2
    assert all(name.startswith("JS_SRC_x-") for name in names)


def test_a_source_on_a_workqueue_becomes_a_durable_that_settles_what_is_stored() -> None:
    source: dict[str, Any] = {
        "name": "JS_SRC_x",
        "direct": True,
        "sourcing": True,
        "deliver_subject": "d",
        "max_deliver": 1,
        "ack_wait": 5,
        "inactive_threshold": 10,
    }
    (config,) = created(source, source, stream=WORKQUEUE).values()
    assert (config.durable_name, config.direct, config.ack_policy) == (
        "JS_SRC_x",
        False,
        AckPolicy.FLOW_CONTROL,
    )
    assert (config.ack_wait, config.max_deliver, config.inactive_threshold) == (0, -1, 0)
    assert config.flow_control


def test_an_account_bounds_consumers_and_what_they_may_leave_pending() -> None:
    limits = AccountLimits(max_consumers=1, max_ack_pending=10)
    config = check_create(request(name="a", ack_policy=AckPolicy.EXPLICIT), STREAM, {}, limits=limits)
    assert config.max_ack_pending == 10
    with pytest.raises(ApiError) as refused:
        check_create(request(name="b"), STREAM, {"a": config}, limits=limits)
    assert refused.value.err_code == 10026
    asked = request(name="a", ack_policy=AckPolicy.EXPLICIT, max_ack_pending=11)
    with pytest.raises(ApiError) as refused:
        check_create(asked, STREAM, {}, limits=limits)
    assert refused.value.err_code == 10121


def test_the_deliver_subject_changes_only_without_a_subscriber_on_the_old_one() -> None:
    existing = created({"name": "c", "deliver_subject": "d"})
    moved = request(name="c", deliver_subject="e")
    assert check_create(moved, STREAM, existing).deliver_subject == "e"
    with pytest.raises(ApiError) as refused:
        check_create(moved, STREAM, existing, has_interest=lambda subject: subject == "d")
    assert refused.value.err_code == 10013


def test_an_ephemeral_keeps_its_threshold_through_an_update() -> None:
    existing = created({"name": "c"}, {"name": "c", "description": "d"})
    assert existing["c"].inactive_threshold == 5_000_000_000
