"""A hidden consumer acknowledges nothing, and the origin removes it when it has no subscriber."""

from __future__ import annotations

from headwater.replication.hidden_consumer import filter_fields, hidden_consumer


def test_it_is_a_push_consumer_without_acks_that_ends_by_itself() -> None:
    config = hidden_consumer("_INBOX.x", deliver_policy="all")
    assert config["deliver_subject"] == "_INBOX.x"
    assert (config["ack_policy"], config["direct"], config["deliver_policy"]) == ("none", True, "all")
    assert config["inactive_threshold"] == 10_000_000_000
    assert "filter_subject" not in config
    assert "filter_subjects" not in config


def test_fields_of_the_caller_are_added_or_replace_the_usual_ones() -> None:
    config = hidden_consumer("_INBOX.x", ("a", "b"), deliver_policy="new", flow_control=True, max_deliver=2)
    assert (config["flow_control"], config["max_deliver"]) == (True, 2)
    assert config["filter_subjects"] == ["a", "b"]


def test_one_filter_has_a_field_that_older_servers_know() -> None:
    assert filter_fields(("a.>",)) == {"filter_subject": "a.>"}
    assert filter_fields(()) == {}
