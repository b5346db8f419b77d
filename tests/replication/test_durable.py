"""The consumer that an origin keeps for us: its name, what it is made with, how it is acknowledged."""

from __future__ import annotations

import pytest

from headwater.errors import BusError
from headwater.model.upstream import StreamSource
from headwater.replication import durable


def test_its_name_is_recognisable_and_every_upstream_s_own() -> None:
    names = {
        durable.durable_name(store, account, target, upstream)
        for store in ("s1", "s2")
        for account in ("$G", "A")
        for target in ("T", "U")
        for upstream in ("O > >", "O a >")
    }
    assert len(names) == 16
    assert all(name.startswith("HEADWATER_") and len(name) == 18 for name in names)


def test_each_message_is_acknowledged_and_filters_are_the_upstream_s() -> None:
    plain = durable.create_request("O", "N", ())["config"]
    assert (plain["ack_policy"], plain["deliver_policy"], plain["durable_name"]) == ("explicit", "all", "N")
    assert "filter_subject" not in plain
    assert durable.create_request("O", "N", ("a",))["config"]["filter_subject"] == "a"
    assert durable.create_request("O", "N", ("a", "b"))["config"]["filter_subjects"] == ["a", "b"]
    assert durable.create_request("O", "N", (), 7)["config"]["opt_start_seq"] == 7


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (StreamSource(name="O"), {"deliver_policy": "all"}),
        (
            StreamSource(name="O", opt_start_seq=5),
            {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
        ),
        (
            StreamSource(name="O", opt_start_time=1_000_000_000),
            {"deliver_policy": "by_start_time", "opt_start_time": "1970-01-01T00:00:01Z"},
        ),
    ],
)
def test_it_begins_where_the_upstream_does(source: StreamSource, expected: dict[str, object]) -> None:
    config = durable.started(durable.create_request("O", "N", ()), source)["config"]
    assert {key: config[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("metadata", "can"),
    [(None, False), ({}, False), ({"_nats.level": "3"}, False), ({"_nats.level": "5"}, True)],
)
def test_the_version_shows_whether_a_server_can_reset_a_consumer(
    metadata: dict[str, str] | None, can: bool
) -> None:
    assert durable.can_reset({"config": {"metadata": metadata}}) is can


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        (b"$JS.ACK.O.N.1.5.6.7.8", "$JS.ACK.O.N"),
        (b"$JS.ACK.hub.ACCHASH.O.N.1.5.6.7.8", "$JS.ACK.hub.ACCHASH.O.N"),
        (b"$JS.ACK.hub.ACCHASH.O.N.1.5.6.7.8.token", "$JS.ACK.hub.ACCHASH.O.N"),
    ],
)
def test_acknowledgements_go_where_deliveries_say(reply: bytes, key: str) -> None:
    assert durable.ack_key(reply) == key
    assert list(durable.ack_subjects(key, iter([3, 9]))) == [
        f"{key}.1.3.1.0.0".encode(),
        f"{key}.1.9.1.0.0".encode(),
    ]


def test_a_delivery_that_cannot_be_acknowledged_is_refused() -> None:
    with pytest.raises(BusError, match="is not an ack subject"):
        durable.ack_key(b"_R_.something")


def test_after_a_refusal_only_what_was_refused_is_no_longer_asked_for() -> None:
    asked = durable.create_request("O", "N", ("a",))
    older = durable.simpler_request(asked, 10025)
    assert older is not None
    assert asked["config"].keys() - older["config"].keys() == {"sourcing"}
    assert durable.simpler_request(older, 10025) is None
    limited = durable.simpler_request(older, 10121)
    assert limited is not None
    assert older["config"].keys() - limited["config"].keys() == {"max_ack_pending"}
    assert (durable.simpler_request(limited, 10121), durable.simpler_request(asked, 10099)) == (None, None)


def test_a_consumer_that_passed_over_our_filters_takes_too_much() -> None:
    several = durable.create_request("O", "N", ("a", "b"))
    assert durable.takes_too_much(several, {"config": {"durable_name": "N"}})
    assert not durable.takes_too_much(several, several)
    one = durable.create_request("O", "N", ("a",))
    assert not durable.takes_too_much(one, one)
