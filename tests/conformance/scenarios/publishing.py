"""From a publish to its acknowledgement: dedupe, expectations, sizes and what is refused."""

import asyncio

from conformance.probe import POLL_EVERY_S, SETTLE_WITHIN_S, Probe
from conformance.scenario import scenario


@scenario
async def a_publish_is_acknowledged_with_its_sequence(probe: Probe) -> None:
    await probe.create({"name": "P", "subjects": ["p.>"]})
    await probe.publish("p.a", b"one")
    await probe.publish("p.a", b"")
    await probe.publish("p.b", b"\x00\xff binary")
    await probe.publish("p.b", b"two", {"Content-Type": "text/plain", "X-Empty": ""})
    await probe.send("p.c", b"without a reply subject")
    await probe.publish("p.d.e.f", b"deep")
    await probe.publish("p", b"nobody listens")
    await probe.publish("q", b"nobody listens")
    await probe.state("P", subjects_filter=">")
    await probe.contents("P")


@scenario
async def a_duplicate_gets_the_first_sequence(probe: Probe) -> None:
    await probe.create({"name": "D", "subjects": ["d.>"]})
    await probe.publish("d.a", b"one", {"Nats-Msg-Id": "1"})
    await probe.publish("d.a", b"two", {"Nats-Msg-Id": "2"})
    await probe.publish("d.a", b"again", {"Nats-Msg-Id": "1"})
    await probe.publish("d.b", b"other subject", {"Nats-Msg-Id": "1"})
    await probe.publish("d.a", b"no id", {"Nats-Msg-Id": ""})
    await probe.publish("d.a", b"no id", {"Nats-Msg-Id": ""})
    await probe.publish("d.a", b"case", {"nats-msg-id": "1"})
    await probe.publish("d.a", b"wrong", {"Nats-Msg-Id": "9", "Nats-Expected-Last-Sequence": "99"})
    await probe.publish("d.a", b"now right", {"Nats-Msg-Id": "9"})
    await probe.publish("d.a", b"both", {"Nats-Msg-Id": "1", "Nats-Expected-Last-Sequence": "99"})
    await probe.publish("d.a", b"msg id", {"Nats-Msg-Id": "1", "Nats-Expected-Last-Msg-Id": "zz"})
    await probe.publish("d.a", b"long", {"Nats-Msg-Id": "i" * 1000})
    await probe.publish("d.a", b"long", {"Nats-Msg-Id": "i" * 1000})
    await probe.state("D")


@scenario
async def removing_a_message_does_not_forget_its_id(probe: Probe) -> None:
    await probe.create({"name": "D", "subjects": ["d"], "max_msgs": 2})
    for id in ("1", "2", "3"):
        await probe.publish("d", id.encode(), {"Nats-Msg-Id": id})
    await probe.publish("d", b"discarded before", {"Nats-Msg-Id": "1"})
    await probe.api("STREAM.MSG.DELETE.D", {"seq": 2})
    await probe.publish("d", b"deleted before", {"Nats-Msg-Id": "2"})
    await probe.api("STREAM.PURGE.D")
    await probe.publish("d", b"purged before", {"Nats-Msg-Id": "3"})
    await probe.state("D")


@scenario
async def an_id_is_free_again_after_the_window(probe: Probe) -> None:
    await probe.create({"name": "W", "subjects": ["w"], "duplicate_window": 300_000_000})
    await probe.publish("w", b"one", {"Nats-Msg-Id": "1"})
    await probe.publish("w", b"again", {"Nats-Msg-Id": "1"})
    async with asyncio.timeout(SETTLE_WITHIN_S):
        while (await probe.ask("w", b"later", {"Nats-Msg-Id": "1"})).get("duplicate"):
            await asyncio.sleep(POLL_EVERY_S)
    await probe.contents("W")
    await probe.state("W")


@scenario
async def expected_stream_and_sequence_are_checked(probe: Probe) -> None:
    await probe.create({"name": "E", "subjects": ["e.>"]})
    await probe.publish("e.a", b"", {"Nats-Expected-Stream": "E"}, label="right stream")
    await probe.publish("e.a", b"", {"Nats-Expected-Stream": "OTHER"}, label="wrong stream")
    await probe.publish("e.a", b"", {"Nats-Expected-Stream": ""}, label="empty stream")
    for value in ("0", "1", "2", "99", "-1", "abc", "", " 2", "2.0", "18446744073709551616"):
        headers = {"Nats-Expected-Last-Sequence": value}
        await probe.publish("e.a", b"", headers, label=f"last sequence '{value}'")
    await probe.state("E")
    await probe.api("STREAM.PURGE.E")
    await probe.publish("e.a", b"", {"Nats-Expected-Last-Sequence": "0"}, label="0 after a purge")


@scenario
async def the_last_sequence_of_an_empty_stream_is_zero(probe: Probe) -> None:
    await probe.create({"name": "E", "subjects": ["e.>"]})
    await probe.publish("e.a", b"", {"Nats-Expected-Last-Sequence": "1"})
    await probe.publish("e.a", b"", {"Nats-Expected-Last-Subject-Sequence": "1"})
    await probe.publish("e.a", b"", {"Nats-Expected-Last-Msg-Id": "x"})
    await probe.publish("e.a", b"", {"Nats-Expected-Last-Sequence": "0"})
    await probe.state("E")


@scenario
async def the_expected_sequence_of_a_subject_is_checked(probe: Probe) -> None:
    await probe.create({"name": "E", "subjects": ["e.>"]})
    expected = "Nats-Expected-Last-Subject-Sequence"
    subject = f"{expected}-Subject"
    for name in ("e.a.1", "e.a.2", "e.b.1", "e.a.1"):
        await probe.publish(name, b"x")
    for value in ("4", "0", "3", "abc", "", "-1"):
        await probe.publish("e.a.1", b"", {expected: value}, label=f"subject sequence '{value}'")
    await probe.publish("e.c", b"", {expected: "0"}, label="a new subject")
    await probe.publish("e.c", b"", {expected: "0"}, label="no longer new")
    await probe.publish("e.d", b"", {expected: "3", subject: "e.b.1"}, label="another subject")
    await probe.publish("e.d", b"", {expected: "2", subject: "e.b.1"}, label="another subject, wrong")
    await probe.publish("e.d", b"", {expected: "5", subject: "e.a.*"}, label="a wildcard")
    await probe.publish("e.d", b"", {expected: "1", subject: "e.a.*"}, label="a wildcard, wrong")
    await probe.publish("e.d", b"", {expected: "0", subject: "e.z.>"}, label="a wildcard of nothing")
    await probe.publish("e.d", b"", {subject: "e.b.1"}, label="the subject alone")
    await probe.publish("e.d", b"", {expected: "0", subject: "other"}, label="a foreign subject")
    await probe.publish("e.d", b"", {expected: "0", subject: "e..x"}, label="an invalid subject")
    await probe.publish("e.d", b"", {expected: "0", subject: ""}, label="an empty subject")
    both = {expected: "3", subject: "e.b.1", "Nats-Expected-Last-Sequence": "1"}
    await probe.publish("e.d", b"", both, label="with a wrong last sequence")
    await probe.api("STREAM.MSG.DELETE.E", {"seq": 3})
    await probe.publish("e.b.1", b"", {expected: "3"}, label="after its deletion")
    await probe.publish("e.b.1", b"", {expected: "0"}, label="after its deletion, zero")
    await probe.state("E", subjects_filter=">")


@scenario
async def the_expected_message_id_is_checked(probe: Probe) -> None:
    await probe.create({"name": "E", "subjects": ["e.>"]})
    expected = "Nats-Expected-Last-Msg-Id"
    await probe.publish("e.a", b"", {"Nats-Msg-Id": "one"})
    await probe.publish("e.a", b"", {expected: "two"}, label="wrong id")
    await probe.publish("e.b", b"", {expected: "one", "Nats-Msg-Id": "two"}, label="right id")
    await probe.publish("e.b", b"", {expected: "one"}, label="no longer the last")
    await probe.publish("e.b", b"without an id", label="no id")
    await probe.publish("e.b", b"", {expected: "two"}, label="the last with an id")
    await probe.publish("e.b", b"", {expected: ""}, label="empty id")
    await probe.publish("e.b", b"", {"Nats-Msg-Id": "two"}, label="a duplicate")
    await probe.state("E")


@scenario
async def messages_above_the_size_limit_are_refused(probe: Probe) -> None:
    await probe.create({"name": "SIZED", "subjects": ["sized"], "max_msg_size": 100})
    await probe.publish("sized", b"x" * 100, label="at the limit")
    await probe.publish("sized", b"x" * 101, label="above the limit")
    await probe.publish("sized", b"x" * 60, {"A": "b"}, label="with headers within")
    await probe.publish("sized", b"x" * 90, {"A": "b"}, label="with headers above")
    await probe.create({"name": "HEADED", "subjects": ["headed"]})
    await probe.publish("headed", b"x", {"A": "b" * 65_000}, label="long headers")
    await probe.publish("headed", b"x", {"A": "b" * 65_535}, label="too long headers")
    await probe.publish("headed", b"x" * 1_000_000, label="a megabyte")
    await probe.state("SIZED")
    await probe.state("HEADED")


@scenario
async def a_stream_without_acks_stores_silently(probe: Probe) -> None:
    await probe.create({"name": "SILENT", "subjects": ["silent"], "no_ack": True})
    await probe.publish("silent", b"kept", timeout=0.5)
    await probe.publish("silent", b"refused", {"Nats-Expected-Stream": "OTHER"}, timeout=0.5)
    await probe.publish("silent", b"twice", {"Nats-Msg-Id": "1"}, timeout=0.5)
    await probe.send("silent", b"twice", {"Nats-Msg-Id": "1"})
    await probe.settle("SILENT", lambda state: state["messages"] == 2)
    await probe.contents("SILENT")


@scenario
async def headers_that_only_servers_set_are_refused(probe: Probe) -> None:
    await probe.create({"name": "H", "subjects": ["h"]})
    await probe.publish("h", b"", {"Nats-Stream-Source": "ORIGIN 1 > >"})
    await probe.publish("h", b"", {"Nats-Marker-Reason": "MaxAge"})
    await probe.publish("h", b"", {"Nats-Sequence": "7", "Nats-Stream": "X", "Nats-Subject": "y"})
    await probe.publish("h", b"", {"Nats-TTL": "5s"})
    await probe.publish("h", b"", {"Nats-Incr": "1"})
    await probe.publish("h", b"", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    await probe.publish("h", b"", {"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "h"})
    await probe.publish("h", b"", {"Nats-Rollup": "sub"})
    await probe.publish("h", b"", {"KV-Operation": "DEL"})
    await probe.contents("H")


@scenario
async def a_required_api_level_is_honoured(probe: Probe) -> None:
    level = "Nats-Required-Api-Level"
    for value in ("0", "1", "5", "6", "99", "x", "", "-1", "1.0"):
        await probe.api("INFO", headers={level: value}, label=f"account info at '{value}'")
    config = {"name": "L", "subjects": ["l"], "allow_direct": True}
    await probe.api("STREAM.CREATE.L", config, headers={level: "99"}, label="create at 99")
    await probe.api("STREAM.CREATE.L", config, headers={level: "1"}, label="create at 1")
    for value in ("1", "99", "x"):
        await probe.publish("l", b"", {level: value}, label=f"publish at '{value}'")
    await probe.api("STREAM.INFO.L", headers={level: "99"}, label="info at 99")
    await probe.api("STREAM.PURGE.L", headers={level: "99"}, label="purge at 99")
    await probe.api("STREAM.MSG.GET.L", {"seq": 1}, headers={level: "99"}, label="get at 99")
    await probe.api("DIRECT.GET.L", {"seq": 1}, headers={level: "99"}, label="direct get at 99")
    await probe.api("DIRECT.GET.L.l", headers={level: "99"}, label="direct last at 99")
    await probe.state("L")


@scenario
async def the_official_client_publishes_without_waiting(probe: Probe) -> None:
    await probe.create({"name": "ASYNC", "subjects": ["async"]})
    futures = [await probe.js.publish_async("async", b"%d" % number) for number in range(200)]
    acks = await asyncio.gather(*futures)
    probe.record("acks", "publish_async (200 times)", [ack.seq for ack in acks])
    await probe.state("ASYNC")
