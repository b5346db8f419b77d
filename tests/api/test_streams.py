"""Streams are created, changed, listed, shown, purged and removed with the answers of nats-server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from doors import Asker, Body, normal

S = {"name": "S", "subjects": ["s.>"]}


async def test_a_created_stream_is_shown_as_nats_server_shows_it(twins: Any) -> None:
    assert (await twins.ask("STREAM.CREATE.S", S))["did_create"]
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask("STREAM.CREATE.S", {**S, "subjects": ["t.>"]})
    await twins.ask("STREAM.INFO.S")
    await twins.ask("STREAM.LIST")
    await twins.ask("STREAM.NAMES")


async def test_every_field_of_a_config_comes_back_as_from_nats_server(twins: Any) -> None:
    await twins.ask(
        "STREAM.CREATE.FULL",
        {
            "name": "FULL",
            "description": "all of it",
            "subjects": ["full.*"],
            "retention": "limits",
            "max_consumers": 3,
            "max_msgs": 100,
            "max_bytes": 10_000,
            "max_age": 3_600_000_000_000,
            "max_msgs_per_subject": 5,
            "max_msg_size": 1000,
            "discard": "new",
            "discard_new_per_subject": True,
            "storage": "memory",
            "no_ack": True,
            "duplicate_window": 1_000_000_000,
            "placement": {"cluster": ""},
            "compression": "s2",
            "first_seq": 7,
            "subject_transform": {"src": "full.*", "dest": "whole.{{wildcard(1)}}"},
            "republish": {"src": "full.*", "dest": "again.{{wildcard(1)}}", "headers_only": True},
            "allow_direct": True,
            "deny_delete": True,
            "deny_purge": True,
            "consumer_limits": {"inactive_threshold": 5_000_000_000, "max_ack_pending": 9},
            "allow_msg_ttl": True,
            "metadata": {"owner": "someone", "a": ""},
        },
    )
    await twins.ask("STREAM.INFO.FULL")


async def test_mirrors_and_sources_are_stored_and_shown_as_never_met(twins: Any) -> None:
    external = {"api": "$JS.X.API", "deliver": ""}
    mirror = {"name": "M", "mirror": {"name": "far", "external": external}}
    transforms = [{"src": "x.*", "dest": "y.$1"}]
    source = {"name": "far", "external": external, "subject_transforms": transforms, "opt_start_seq": 5}
    for config in (mirror, {"name": "R", "sources": [source]}):
        created = await twins.ask(f"STREAM.CREATE.{config['name']}", config)
        (shown,) = created.get("sources") or [created["mirror"]]
        assert (shown["lag"], shown["active"]) == (0, -1)
    await twins.ask("STREAM.LIST")


async def test_updates_answer_as_nats_server_does(twins: Any) -> None:
    await twins.ask("STREAM.UPDATE.S", S)
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask("STREAM.UPDATE.S", {**S, "description": "new", "max_msgs": 2})
    await twins.ask("STREAM.UPDATE.S", {**S, "storage": "memory"})
    await twins.ask("STREAM.UPDATE.S", {**S, "name": "T"})
    await twins.ask("STREAM.UPDATE.S", {**S, "unknown": 1})
    await twins.ask("STREAM.UPDATE.S", "{")
    await twins.ask("STREAM.INFO.S")


async def test_lower_limits_take_hold_at_once(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for number in range(10):
        await twins.publish(f"s.{number}", b"x")
    await twins.ask("STREAM.UPDATE.S", {**S, "max_msgs": 3})
    assert (await twins.ask("STREAM.INFO.S"))["state"]["messages"] == 3


async def test_a_changed_subject_is_listened_on_and_the_old_one_no_more(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await ask.ask("STREAM.UPDATE.S", {**S, "subjects": ["new.>"]})
    assert (await ask.publish("new.1"))["seq"] == 1
    assert (await ask.ask("STREAM.NAMES", {"subject": "s.1"}))["streams"] is None


@pytest.mark.parametrize(
    "body",
    [
        None,
        "xx",
        {"offset": 1},
        {"offset": 99},
        {"offset": -5},
        {"subject": "s.1"},
        {"subject": "nobody"},
        {"subject": ">"},
        "{x",
        {"zz": 1},
        {"offset": "a"},
        "[]",
    ],
)
async def test_names_and_lists_answer_as_nats_server_does(twins: Any, body: Body) -> None:
    for name in ("B", "A", "S"):
        await twins.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]})
    # When an origin that is there is first heard of depends on how fast each of the two is.
    far = {"name": "far", "external": {"api": "$JS.X.API", "deliver": ""}}
    await twins.ask("STREAM.CREATE.M", {"name": "M", "mirror": far})
    await twins.ask("STREAM.NAMES", body)
    await twins.ask("STREAM.LIST", body)


@pytest.mark.parametrize("subject", ["STREAM.NAMES", "STREAM.LIST"])
async def test_with_no_streams_lists_are_empty_as_nats_server_has_them(twins: Any, subject: str) -> None:
    await twins.ask(subject)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "{}",
        "xx",
        {"deleted_details": True},
        {"subjects_filter": ">"},
        {"subjects_filter": "s.1", "deleted_details": True},
        {"subjects_filter": "zz"},
        {"subjects_filter": ">", "offset": 2},
        {"subjects_filter": ">", "offset": 20},
        {"deleted_details": "yes"},
        {"unknown": 1},
    ],
)
async def test_a_stream_is_shown_as_nats_server_shows_it(twins: Any, body: Body) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for number in range(6):
        await twins.publish(f"s.{number % 4}", b"data")
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    await twins.ask("STREAM.INFO.S", body)


async def test_more_subjects_than_fit_into_a_message_are_paged(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    wanted = {f"s.{'x' * 2000}.{number}": 1 for number in range(800)}
    await asyncio.gather(*(ask.publish(subject) for subject in wanted))
    found: dict[str, int] = {}
    total = 1
    while len(found) < total:
        answer = await ask.ask("STREAM.INFO.S", {"subjects_filter": ">", "offset": len(found)})
        total = answer["total"]
        assert answer["state"]["subjects"]
        found |= answer["state"]["subjects"]
    assert found == wanted


async def test_more_streams_than_fit_into_a_message_are_paged(ask: Asker) -> None:
    for number in range(40):
        subjects = [f"s{number}.{'x' * 100}.{n}" for n in range(400)]
        await ask.ask(f"STREAM.CREATE.S{number:02}", {"name": f"S{number:02}", "subjects": subjects})
    found: list[str] = []
    total = 1
    while len(found) < total:
        answer = await ask.ask("STREAM.LIST", {"offset": len(found)})
        total = answer["total"]
        assert answer["streams"]
        assert answer["limit"] in (len(answer["streams"]), 256)
        found += [stream["config"]["name"] for stream in answer["streams"]]
    assert found == [f"S{number:02}" for number in range(40)]


@pytest.mark.parametrize(
    "body",
    [
        None,
        "xx",
        {"filter": "s.1"},
        {"filter": "s.*", "keep": 1},
        {"keep": 2},
        {"keep": 99},
        {"seq": 3},
        {"seq": 4, "filter": "s.1"},
        {"seq": 10},
        {"seq": 1, "keep": 1},
        {"seq": -1},
        {"zz": 1},
        {"filter": "s..1"},
        {"filter": 5},
    ],
)
async def test_purges_leave_what_nats_server_leaves(twins: Any, body: Body) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for number in range(6):
        await twins.publish(f"s.{number % 3}", b"data")
    await twins.ask("STREAM.PURGE.S", body)
    await twins.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    await twins.publish("s.1")


async def test_what_a_stream_forbids_is_refused_as_by_nats_server(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", {**S, "deny_purge": True, "deny_delete": True})
    await twins.publish("s.1")
    await twins.ask("STREAM.PURGE.S")
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    await twins.ask("STREAM.UPDATE.S", {**S, "deny_purge": True, "deny_delete": True, "sealed": True})
    await twins.ask("STREAM.PURGE.S")
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    await twins.ask("STREAM.INFO.S")


@pytest.mark.parametrize("body", [None, "{}", "{ }", "x", {"a": 1}, "[]", "null"])
async def test_a_stream_is_removed_only_by_an_empty_request(twins: Any, body: Body) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask("STREAM.DELETE.S", body)
    await twins.ask("STREAM.NAMES")
    await twins.ask("STREAM.DELETE.NOBODY")


async def test_a_removed_stream_starts_over_when_re_created(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.publish("s.1")
    await twins.ask("STREAM.DELETE.S")
    await twins.ask("STREAM.CREATE.S", S)
    assert (await twins.publish("s.1"))["seq"] == 1


@pytest.mark.parametrize("verb", ["INFO", "UPDATE", "DELETE", "PURGE", "MSG.GET", "MSG.DELETE"])
async def test_an_unknown_stream_is_refused_as_by_nats_server(twins: Any, verb: str) -> None:
    body = {"MSG.GET": {"seq": 1}, "MSG.DELETE": {"seq": 1}, "UPDATE": {"name": "X"}}.get(verb)
    assert (await twins.ask(f"STREAM.{verb}.X", body))["error"]["err_code"] == 10059


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("S", "{"),
        ("S", ""),
        ("S", "[]"),
        ("S", "{}"),
        ("S", "null"),
        ("S", {"name": 1}),
        ("S", {"name": "T"}),
        ("S", {"name": "../x"}),
        ("S", {"name": "S", "subjects": "s"}),
        ("S", {"name": "S", "subjects": [1]}),
        ("S", {"name": "S", "subjects": ["a b"]}),
        ("S", {"name": "S", "subjects": [""]}),
        ("S", {"name": "S", "max_msgs": "1"}),
        ("S", {"name": "S", "max_msgs": 1.5}),
        ("S", {"name": "S", "max_age": -1}),
        ("S", {"name": "S", "retention": "sometimes"}),
        ("S", {"name": "S", "sealed": True}),
        ("S", {"name": "S", "mirror_direct": True}),
        ("S", {"name": "S", "num_replicas": 3}),
        ("a/b", {"name": "a/b"}),
        ("a\\b", {"name": "a\\b"}),
        ("é", {"name": "é"}),
        ("%2e%2e", {"name": "%2e%2e"}),
        ("x" * 255, {"name": "x" * 255}),
        ("x" * 256, {"name": "x" * 256}),
        ("$JS", {"name": "$JS"}),
    ],
)
async def test_bad_input_is_refused_as_by_nats_server(twins: Any, name: str, body: Body) -> None:
    await twins.ask(f"STREAM.CREATE.{name}", body)
    await twins.ask("STREAM.NAMES")


async def test_names_that_look_like_paths_touch_nothing_outside_the_store(ask: Asker) -> None:
    for name in ("..", "a..b", "../x", "a b", "*", ">"):
        answer = await ask.ask("STREAM.CREATE.S", {"name": name})
        assert answer["error"]["err_code"] == 10056, name
    answer = await ask.ask("STREAM.CREATE.%2e%2e%2fx", {"name": "%2e%2e%2fx"})
    assert answer["did_create"]


async def test_ten_thousand_subjects_are_accepted_while_other_streams_continue(ask: Asker) -> None:
    subjects = [f"many.{number}" for number in range(10_000)]
    creating = asyncio.create_task(ask.ask("STREAM.CREATE.MANY", {"name": "MANY", "subjects": subjects}))
    await ask.ask("STREAM.CREATE.S", S)
    assert len((await creating)["config"]["subjects"]) == 10_000
    assert (await ask.publish("many.9999"))["seq"] == 1
    assert (await ask.publish("s.1"))["stream"] == "S"


async def test_two_requests_for_one_name_at_once_make_one_stream(ask: Asker) -> None:
    answers = await asyncio.gather(
        *(ask.ask("STREAM.CREATE.S", {**S, "max_msgs": limit}) for limit in (1, 2, 1, 2))
    )
    kept = answers[0]["config"]["max_msgs"] if "config" in answers[0] else 2
    for answer, limit in zip(answers, (1, 2, 1, 2), strict=True):
        assert ("did_create" in answer) == (limit == kept)


@pytest.mark.parametrize("seq", [2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1])
async def test_no_sequence_is_purged_to_that_a_table_cannot_hold(ask: Asker, seq: int) -> None:
    """nats-server accepts it. In Headwater every later publish would fail."""
    await ask.ask("STREAM.CREATE.S", S)
    await ask.publish("s.a")
    refused = await ask.ask("STREAM.PURGE.S", {"seq": seq})
    assert refused["error"]["err_code"] == 10110
    refused = await ask.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["t"], "first_seq": seq})
    assert refused["error"]["err_code"] == 10052
    assert (await ask.publish("s.a"))["seq"] == 2


async def test_the_largest_sequence_can_be_purged_to_and_published_after(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", {**S, "first_seq": 2**62})
    assert (await ask.publish("s.a"))["seq"] == 2**62
    assert (await ask.ask("STREAM.PURGE.S", {"seq": 2**62}))["purged"] == 0
    assert (await ask.publish("s.a"))["seq"] == 2**62 + 1
    assert (await ask.ask("STREAM.MSG.GET.S", {"seq": 2**62 + 1}))["message"]["seq"] == 2**62 + 1


HOSTILE = [">.>", ">.>.>.>.>.>.>.>.>.>.>.>.x", "s.>.c", "s..a", ".s", "s.", "s a", "s.*.*.>.*"]


@pytest.mark.parametrize("pattern", HOSTILE)
async def test_a_pattern_that_is_not_valid_is_answered_at_every_door_as_by_nats_server(
    twins: Any, pattern: str
) -> None:
    await twins.ask("STREAM.CREATE.S", {**S, "allow_direct": True})
    for subject in ("s.a", "s.b.c", "s." + "x." * 30 + "y"):
        await twins.publish(subject, b"data")
    await twins.ask("STREAM.MSG.GET.S", {"last_by_subj": pattern})
    await twins.ask("STREAM.MSG.GET.S", {"next_by_subj": pattern, "seq": 1})
    await twins.ask("STREAM.INFO.S", {"subjects_filter": pattern})
    await twins.one("DIRECT.GET.S", {"last_by_subj": pattern})
    await twins.one("DIRECT.GET.S", {"next_by_subj": pattern, "seq": 1})
    await twins.one("DIRECT.GET.S", {"multi_last": [pattern]})
    for expected in (b"0", b"1"):
        block = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: " + expected
        block += b"\r\nNats-Expected-Last-Subject-Sequence-Subject: " + pattern.encode() + b"\r\n\r\n"
        await twins.publish("s.a", b"", block)
    await twins.ask("STREAM.PURGE.S", {"filter": pattern})
    await twins.ask("STREAM.PURGE.S", {"filter": pattern, "keep": 1})
    for filters in ({"filter_subject": pattern}, {"filter_subjects": [pattern, "s.a"]}):
        config = {"ack_policy": "explicit", "durable_name": "C", **filters}
        await twins.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    await twins.ask("STREAM.CREATE.T", {"name": "T", "subjects": [pattern]})


RESERVED = """
> * *.* *.> *.*.X *.*.REPLICATION.COMMIT *.API.> $JS.> $JS.ACK.> $JS.API.INFO $JS.EVENT.> $JSC.> $NRG.> $SYS.>
$SYS.ACCOUNT.> $SYS.REQ.x _INBOX.> $KV.> $*.x
"""


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("subject", RESERVED.split())
async def test_what_overlaps_with_reserved_subjects_is_refused_or_legal_as_with_nats_server(
    twins: Any, subject: str, no_ack: bool
) -> None:
    config = {"name": "S", "subjects": [subject], "no_ack": no_ack}
    theirs, ours = [normal(await peer.ask("STREAM.CREATE.S", config)) for peer in (twins.theirs, twins.ours)]
    # A stream of $JS.EVENT.> may hold the advisory of its own creation already.
    for answer in (theirs, ours):
        answer.pop("state", None)
    assert ours == theirs
