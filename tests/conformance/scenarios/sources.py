"""Sources: many origins and local publishes in one stream."""

from conformance.copies import add, arrived, copied, fill, sourced, transform, upstream, upstreams
from conformance.probe import Probe
from conformance.scenario import copying

AB = ["a.1", "a.2", "a.1"]
BS = ["b.1", "b.2"]


@copying
async def origins_and_publishes_come_together(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await fill(probe, "B", BS)
    await probe.create({"name": "S", "subjects": ["s.>"], "sources": [upstream("A"), upstream("B")]})
    await copied(probe, "S", messages=5)
    await probe.publish("s.mine", b"local")
    await add(probe, BS, 3)
    await copied(probe, "S", messages=8)
    await probe.publish("s.mine", b"local again")
    await add(probe, AB, 4)
    await copied(probe, "S", messages=12)
    await sourced(probe, "S")
    await upstreams(probe, "S")


@copying
async def a_source_takes_what_its_filter_takes(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    await probe.create({"name": "S", "sources": [upstream("A", filter_subject="a.2")]})
    await copied(probe, "S", messages=2)
    await add(probe, AB, 7)
    await copied(probe, "S", messages=3)
    await sourced(probe, "S")
    await upstreams(probe, "S")


@copying
async def an_origin_is_sourced_twice(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    twice = [upstream("A", filter_subject="a.1"), upstream("A", filter_subject="a.2")]
    await probe.create({"name": "S", "sources": twice})
    await copied(probe, "S", messages=6)
    await sourced(probe, "S")
    await upstreams(probe, "S")


@copying
async def sources_rename(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await fill(probe, "B", BS)
    renaming = [transform("a.1", "one.{{partition(5)}}"), transform("a.2", "two")]
    wild = [transform("b.*", "{{wildcard(1)}}.of.b")]
    sources = [upstream("A", subject_transforms=renaming), upstream("B", subject_transforms=wild)]
    await probe.create({"name": "S", "sources": sources})
    await copied(probe, "S", messages=5)
    await sourced(probe, "S")
    await upstreams(probe, "S")
    only = [transform("a.2", ""), transform("a.1", "x.y")]
    own = {"src": "x.>", "dest": "z.>"}
    await probe.create(
        {"name": "T", "sources": [upstream("A", subject_transforms=only)], "subject_transform": own}
    )
    await copied(probe, "T", messages=3)
    await sourced(probe, "T")


@copying
async def a_source_begins_at_a_sequence(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    await probe.create({"name": "S", "sources": [upstream("A", opt_start_seq=5)]})
    await copied(probe, "S", messages=2)
    await sourced(probe, "S")
    fourth = await probe.quietly("STREAM.MSG.GET.A", {"seq": 4})
    later = upstream("A", opt_start_time=fourth["message"]["time"])
    await probe.create({"name": "T", "sources": [later]})
    await copied(probe, "T", messages=3)
    await sourced(probe, "T")
    beyond = upstream("A", opt_start_seq=8)
    await probe.create({"name": "U", "sources": [beyond]})
    await add(probe, AB, 7)
    await copied(probe, "U", messages=2)
    await sourced(probe, "U")


@copying
async def a_sequence_to_begin_at_wins_over_a_time(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    both = {"opt_start_seq": 5, "opt_start_time": "2020-01-01T00:00:00Z"}
    await probe.create({"name": "S", "sources": [upstream("A", **both)]})
    await copied(probe, "S", messages=2)
    await sourced(probe, "S")
    await probe.create({"name": "M", "mirror": upstream("A", **both)})
    await copied(probe, "M", messages=2)
    await sourced(probe, "M")


@copying
async def a_source_joins_a_stream_with_a_past(probe: Probe) -> None:
    await fill(probe, "A", AB)
    config = {"name": "S", "subjects": ["s.>"]}
    await probe.create(config)
    await probe.publish("s.x", b"later than all of A")
    begins = upstream("A", opt_start_time="2020-01-01T00:00:00Z")
    await probe.update(config | {"sources": [begins]})
    await add(probe, ["a.marker"], 4)
    await arrived(probe, "S", "a.marker")
    await sourced(probe, "S")


@copying
async def a_source_joins_a_stream_that_was_purged(probe: Probe) -> None:
    await fill(probe, "A", AB)
    config = {"name": "S", "subjects": ["s.>"]}
    await probe.create(config)
    await probe.publish("s.x", b"later than all of A")
    await probe.api("STREAM.PURGE.S")
    await probe.update(config | {"sources": [upstream("A")]})
    await add(probe, ["a.marker"], 4)
    await arrived(probe, "S", "a.marker")
    await sourced(probe, "S")


@copying
async def sources_come_and_go(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await fill(probe, "B", BS)
    config = {"name": "S", "subjects": ["s.>"]}
    await probe.create(config | {"sources": [upstream("A")]})
    await copied(probe, "S", messages=3)
    await probe.update(config | {"sources": [upstream("A"), upstream("B")]}, "one more")
    await copied(probe, "S", messages=5)
    await probe.update(config | {"sources": [upstream("B")]}, "one less")
    await add(probe, AB, 4)
    await add(probe, BS, 3)
    await copied(probe, "S", messages=7)
    await probe.update(config | {"sources": [upstream("B"), upstream("A")]}, "again")
    await copied(probe, "S", messages=10)
    await sourced(probe, "S")
    await probe.update(config, "none")
    await probe.publish("s.x", b"on")
    await upstreams(probe, "S")


@copying
async def a_known_id_is_left_out(probe: Probe) -> None:
    await fill(probe, "A", [])
    await fill(probe, "B", [])
    for stream in ("a", "b"):
        for number in range(3):
            await probe.ask(f"{stream}.x", b"%d" % number, {"Nats-Msg-Id": f"{stream}{number}"})
    await probe.ask("b.x", b"as in A", {"Nats-Msg-Id": "a1"})
    await probe.ask("b.x", b"last")
    await probe.create({"name": "S", "sources": [upstream("A")], "duplicate_window": 120_000_000_000})
    await copied(probe, "S", messages=3)
    both = [upstream("A"), upstream("B")]
    await probe.update({"name": "S", "sources": both, "duplicate_window": 120_000_000_000})
    await copied(probe, "S", messages=7)
    await sourced(probe, "S")


@copying
async def expectations_were_of_the_origin(probe: Probe) -> None:
    await fill(probe, "A", AB)
    expected = {
        "Nats-Expected-Stream": "A",
        "Nats-Expected-Last-Sequence": "3",
        "Nats-Expected-Last-Subject-Sequence": "2",
        "Own": "kept",
    }
    await probe.publish("a.2", b"expected", expected)
    await probe.ask("a.2", b"after")
    await probe.create({"name": "S", "sources": [upstream("A")]})
    await copied(probe, "S", messages=5)
    await sourced(probe, "S")


@copying
async def rollups_and_lives_of_sourced_messages(probe: Probe) -> None:
    await fill(probe, "A", AB, allow_rollup_hdrs=True, allow_msg_ttl=True)
    await probe.ask("a.1", b"sum", {"Nats-Rollup": "sub"})
    await probe.ask("a.2", b"short", {"Nats-TTL": "1h"})
    await probe.create({"name": "S", "sources": [upstream("A")]})
    await copied(probe, "S", last_seq=3)
    await sourced(probe, "S")
    await probe.create(
        {"name": "R", "sources": [upstream("A")], "allow_rollup_hdrs": True, "allow_msg_ttl": True}
    )
    await copied(probe, "R", last_seq=3)
    await sourced(probe, "R")
    await probe.ask("a.1", b"sum of all", {"Nats-Rollup": "all"})
    await copied(probe, "S", last_seq=4)
    await copied(probe, "R", last_seq=4)
    await sourced(probe, "S")
    await sourced(probe, "R")


@copying
async def a_full_target_takes_the_rest_when_there_is_room(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    config = {"name": "S", "sources": [upstream("A")], "max_msgs": 4, "discard": "new"}
    await probe.create(config)
    await probe.settle("S", lambda state: state["messages"] == 4)
    # What the source says meanwhile is another matter: nats-server is silent, Headwater says it is stuck.
    await probe.quietly("STREAM.UPDATE.S", config | {"max_msgs": 10})
    await copied(probe, "S", messages=6)
    await sourced(probe, "S")


@copying
async def a_target_keeps_its_own_limits(probe: Probe) -> None:
    await fill(probe, "A", AB * 3)
    await probe.create({"name": "S", "sources": [upstream("A")], "max_msgs": 4})
    await copied(probe, "S", last_seq=9)
    await sourced(probe, "S")
    await probe.create({"name": "L", "sources": [upstream("A")], "max_msgs_per_subject": 1})
    await copied(probe, "L", last_seq=9)
    await sourced(probe, "L")


@copying
async def sources_of_sources(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await fill(probe, "B", BS)
    # One after the other, for their places in the middle show at the end.
    await probe.create({"name": "MIDDLE", "sources": [upstream("A")]})
    await copied(probe, "MIDDLE", messages=3)
    await probe.update({"name": "MIDDLE", "sources": [upstream("A"), upstream("B")]})
    await copied(probe, "MIDDLE", messages=5)
    await probe.create({"name": "END", "sources": [upstream("MIDDLE", filter_subject="a.>")]})
    await copied(probe, "END", messages=3)
    await sourced(probe, "END")
    await probe.create({"name": "MIRROR", "mirror": upstream("MIDDLE")})
    await copied(probe, "MIRROR", messages=5)
    await sourced(probe, "MIRROR")


@copying
async def purging_a_target_brings_nothing_back(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await probe.create({"name": "S", "sources": [upstream("A")]})
    await copied(probe, "S", messages=3)
    await probe.api("STREAM.PURGE.S")
    await add(probe, AB, 4)
    await copied(probe, "S", messages=3, last_seq=6)
    await sourced(probe, "S")
    await probe.api("STREAM.MSG.DELETE.S", {"seq": 5})
    await add(probe, AB, 7)
    await copied(probe, "S", messages=5, last_seq=9)
    await sourced(probe, "S")


@copying
async def a_source_waits_for_its_origin(probe: Probe) -> None:
    await fill(probe, "B", BS)
    await probe.create({"name": "S", "sources": [upstream("A"), upstream("B")]})
    await copied(probe, "S", messages=2)
    await fill(probe, "A", AB)
    await copied(probe, "S", messages=5)
    await sourced(probe, "S")


@copying
async def what_was_deleted_before_never_comes(probe: Probe) -> None:
    await fill(probe, "A", AB * 2)
    for seq in (1, 4):
        await probe.quietly("STREAM.MSG.DELETE.A", {"seq": seq})
    await probe.create({"name": "S", "sources": [upstream("A")]})
    await copied(probe, "S", messages=4)
    await sourced(probe, "S")


@copying
async def sources_of_one_origin_in_many_streams(probe: Probe) -> None:
    await fill(probe, "A", AB)
    for name in ("S1", "S2", "S3"):
        await probe.create({"name": name, "sources": [upstream("A")], "storage": "memory"})
    for name in ("S1", "S2", "S3"):
        await copied(probe, name, messages=3)
        await sourced(probe, name)


@copying
async def nobody_claims_to_be_a_source(probe: Probe) -> None:
    await fill(probe, "A", AB)
    await probe.publish("a.1", b"", {"Nats-Stream-Source": "X 1 > > x"})
    await probe.publish("a.1", b"", {"nats-stream-source": "X 1 > > x"})


@copying
async def counters_are_summed_up(probe: Probe) -> None:
    for name in ("A", "B"):
        await fill(probe, name, [], allow_msg_counter=True)
        for increment in ("1", "2", "3"):
            await probe.ask(f"{name.lower()}.count", b"", {"Nats-Incr": increment, "Own": "kept"})
    config = {"name": "S", "subjects": ["sum.>"], "allow_msg_counter": True}
    joined = [upstream(name, subject_transforms=[transform(f"{name.lower()}.*", "sum.$1")]) for name in "AB"]
    await probe.create(config | {"sources": joined[:1]})
    await copied(probe, "S", last_seq=3)
    await probe.publish("sum.count", b"", {"Nats-Incr": "100"})
    await probe.update(config | {"sources": joined})
    await copied(probe, "S", last_seq=7)
    await probe.ask("a.count", b"", {"Nats-Incr": "-2"})
    await copied(probe, "S", last_seq=8)
    await sourced(probe, "S")
    await probe.create({"name": "PLAIN", "sources": [upstream("A")]})
    await copied(probe, "PLAIN", last_seq=4)
    await sourced(probe, "PLAIN")


@copying
async def what_was_published_as_a_batch_comes_alone(probe: Probe) -> None:
    await fill(probe, "A", [], allow_atomic=True)
    batch = {"Nats-Batch-Id": "one", "Own": "kept"}
    await probe.send("a.1", b"first", batch | {"Nats-Batch-Sequence": "1"})
    await probe.publish("a.2", b"last", batch | {"Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    await probe.create({"name": "S", "sources": [upstream("A")]})
    await copied(probe, "S", messages=2)
    await sourced(probe, "S")
    await probe.create({"name": "M", "mirror": upstream("A")})
    await copied(probe, "M", messages=2)
    await sourced(probe, "M")
