"""Forms become requests of the API, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.console import changes
from headwater.console.changes import ChangeRequest
from headwater.errors import SettingsError
from headwater.model.times import parse_time


def test_a_form_becomes_the_configuration_of_a_stream() -> None:
    config = changes.stream_config(
        {
            "name": " ORDERS ",
            "subjects": "orders.>, returns.*\n",
            "storage": "file",
            "max_msgs": "100",
            "max_bytes": "1.5GiB",
            "max_age": "1d12h",
            "description": "",
            "allow_direct": "on",
            "sources": "A domain=hub filter=a.>\n\nB start_seq=7\n",
        }
    )
    assert config == {
        "name": "ORDERS",
        "subjects": ["orders.>", "returns.*"],
        "storage": "file",
        "max_msgs": 100,
        "max_bytes": 3 << 29,
        "max_age": 36 * 3600 * 10**9,
        "allow_direct": True,
        "sources": [
            {"name": "A", "external": {"api": "$JS.hub.API"}, "filter_subject": "a.>"},
            {"name": "B", "opt_start_seq": 7},
        ],
    }
    assert changes.stream_config({"name": "M", "mirror": "ORDERS api=$JS.x.API"}) == {
        "name": "M",
        "mirror": {"name": "ORDERS", "external": {"api": "$JS.x.API"}},
    }


def test_a_form_becomes_the_configuration_of_a_consumer() -> None:
    config = changes.consumer_config(
        {
            "name": "work",
            "filter_subjects": "a.>",
            "ack_policy": "explicit",
            "ack_wait": "30s",
            "max_deliver": "5",
        }
    )
    assert config == {
        "name": "work",
        "durable_name": "work",
        "filter_subject": "a.>",
        "ack_policy": "explicit",
        "ack_wait": 30 * 10**9,
        "max_deliver": 5,
    }
    assert changes.consumer_config({"name": "w", "filter_subjects": "a b"})["filter_subjects"] == ["a", "b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"max_msgs": "many"},
        {"max_msgs": "9" * 30},
        {"max_bytes": "big"},
        {"max_age": "long"},
        {"max_age": "-5s"},
        {"sources": "A colour=red"},
        {"mirror": "A start_seq=x"},
    ],
)
def test_a_field_that_cannot_be_read_is_named(fields: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        changes.stream_config({"name": "S", **fields})


def test_each_change_is_one_request() -> None:
    assert changes.create_stream({"name": "S"}) == ChangeRequest("STREAM.CREATE.S", {"name": "S"})
    assert changes.update_stream("S", {"name": "S"}) == ChangeRequest("STREAM.UPDATE.S", {"name": "S"})
    assert changes.delete_stream("S", "S") == ChangeRequest("STREAM.DELETE.S", None)
    assert changes.purge_stream("S", "S", {}) == ChangeRequest("STREAM.PURGE.S", None)
    assert changes.purge_stream("S", "S", {"filter": "a.>", "keep": "3"}).body == {"filter": "a.>", "keep": 3}
    made = changes.put_consumer("S", {"name": "c"}, exists=False)
    assert made == ChangeRequest(
        "CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c"}, "action": "create"}
    )
    assert changes.delete_consumer("S", "c", "c") == ChangeRequest("CONSUMER.DELETE.S.c", None)
    assert changes.pause_consumer("S", "c", "", 0) == ChangeRequest("CONSUMER.PAUSE.S.c", None)
    paused = changes.pause_consumer("S", "c", "90s", 10**18).body
    assert paused is not None
    assert parse_time(paused["pause_until"]) == 10**18 + 90 * 10**9


def test_a_name_that_is_not_typed_changes_nothing() -> None:
    with pytest.raises(SettingsError, match="to confirm"):
        changes.delete_stream("S", "s")
    with pytest.raises(SettingsError, match="to confirm"):
        changes.purge_stream("S", "", {})
    with pytest.raises(SettingsError, match="to confirm"):
        changes.delete_consumer("S", "c", "S")


@pytest.mark.parametrize("name", ["", "a.b", "*", ">", "a b", "a\n", None, 7, "a\x00"])
def test_a_name_cannot_reach_another_endpoint(name: Any) -> None:
    with pytest.raises(SettingsError, match="not a valid name"):
        changes.create_stream({"name": name})
    with pytest.raises(SettingsError):
        changes.put_consumer("S", {"name": name}, exists=False)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "[" * 100_000, '{"a": "\\ud800"}', "{}" + " " * 600_000]
)
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        changes.json_object(text)


def test_other_refusals_name_the_remedy() -> None:
    with pytest.raises(SettingsError, match="cannot be changed"):
        changes.update_stream("S", {"name": "T"})
    with pytest.raises(SettingsError, match="exclude each other"):
        changes.purge_stream("S", "S", {"seq": "1", "keep": "2"})
    with pytest.raises(SettingsError, match="at most 365d"):
        changes.pause_consumer("S", "c", "9999d", 0)
    assert changes.json_object(changes.shown_json({"a": "ä"})) == {"a": "ä"}
