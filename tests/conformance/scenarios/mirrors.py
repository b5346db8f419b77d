"""Mirrors: the origin's messages under their own sequences and times."""

from conformance.copies import add, copied, fill, mirrored, transform, upstream, upstreams
from conformance.inbox import Used
from conformance.probe import Probe
from conformance.scenario import copying

MIRROR = {"name": "M", "mirror": upstream("O")}
ABC = ["o.a", "o.b", "o.c"]


@copying
async def a_mirror_keeps_sequence_time_and_headers(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.ask("o.h", b"with", {"Own": "header", "Nats-Msg-Id": "1"})
    await probe.ask("o.e", b"", {"Nats-Expected-Last-Sequence": "4", "Kept": "yes"})
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=5)
    await mirrored(probe, "O", "M")
    await upstreams(probe, "M")
    await add(probe, ABC, 6)
    await copied(probe, "M", last_seq=8)
    await mirrored(probe, "O", "M")


@copying
async def gaps_of_the_origin_are_kept(probe: Probe) -> None:
    await fill(probe, "O", ABC * 3)
    for seq in (1, 2, 5, 8):
        await probe.quietly("STREAM.MSG.DELETE.O", {"seq": seq})
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=9)
    await mirrored(probe, "O", "M")
    await add(probe, ABC, 10)
    await copied(probe, "M", last_seq=12)
    await mirrored(probe, "O", "M")


@copying
async def what_the_origin_deletes_later_stays(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=6)
    await probe.quietly("STREAM.MSG.DELETE.O", {"seq": 2})
    await probe.quietly("STREAM.PURGE.O", {"filter": "o.c"})
    await add(probe, ABC, 7)
    await copied(probe, "M", last_seq=9)
    await mirrored(probe, "O", "M")
    await probe.quietly("STREAM.PURGE.O")
    await add(probe, ABC, 10)
    await copied(probe, "M", last_seq=12)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_begins_where_its_origin_does(probe: Probe) -> None:
    await fill(probe, "O", ABC, first_seq=100)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=102)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_of_what_is_empty_but_was_not(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.quietly("STREAM.PURGE.O")
    await probe.create(MIRROR)
    await add(probe, ABC, 4)
    await copied(probe, "M", last_seq=6)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_has_limits_of_its_own(probe: Probe) -> None:
    await fill(probe, "O", ABC * 3)
    await probe.create(MIRROR | {"max_msgs": 4})
    await copied(probe, "M", last_seq=9)
    await mirrored(probe, "O", "M")
    await probe.create({"name": "P", "mirror": upstream("O"), "max_msgs_per_subject": 1})
    await copied(probe, "P", last_seq=9)
    await mirrored(probe, "O", "P")


@copying
async def deletes_and_purges_of_a_mirror_are_its_own(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=6)
    await probe.api("STREAM.MSG.DELETE.M", {"seq": 3})
    await probe.api("STREAM.PURGE.M", {"filter": "o.a"})
    await mirrored(probe, "O", "M")
    await probe.api("STREAM.PURGE.M")
    await probe.state("M")
    await add(probe, ABC, 7)
    await copied(probe, "M", last_seq=9)
    await mirrored(probe, "O", "M")
    await probe.state("O")


@copying
async def a_mirror_takes_what_its_filter_takes(probe: Probe) -> None:
    await fill(probe, "O", ABC * 3)
    await probe.create({"name": "M", "mirror": upstream("O", filter_subject="o.b")})
    await copied(probe, "M", messages=3)
    await mirrored(probe, "O", "M")
    await upstreams(probe, "M")
    await add(probe, ABC, 10)
    await copied(probe, "M", messages=4)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_may_rename(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    renaming = [transform("o.a", "first"), transform("o.c", "last.{{partition(3,1)}}")]
    await probe.create({"name": "BAD", "mirror": upstream("O", subject_transforms=renaming)})
    renaming = [transform("o.a", "first"), transform("o.c", "")]
    await probe.create({"name": "M", "mirror": upstream("O", subject_transforms=renaming)})
    await copied(probe, "M", messages=4)
    await mirrored(probe, "O", "M")
    await upstreams(probe, "M")
    await probe.create(
        {"name": "ALL", "mirror": upstream("O", subject_transforms=[transform("o.*", "x.{{wildcard(1)}}.y")])}
    )
    await copied(probe, "ALL", messages=6)
    await mirrored(probe, "O", "ALL")


@copying
async def a_mirror_may_begin_later(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    await probe.create({"name": "M", "mirror": upstream("O", opt_start_seq=4)})
    await copied(probe, "M", last_seq=6)
    await mirrored(probe, "O", "M")
    fourth = await probe.quietly("STREAM.MSG.GET.O", {"seq": 4})
    began = fourth["message"]["time"]
    await probe.create({"name": "T", "mirror": upstream("O", opt_start_time=began)})
    await copied(probe, "T", last_seq=6)
    await mirrored(probe, "O", "T")


@copying
async def nobody_publishes_to_a_mirror(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.create({"name": "M", "mirror": upstream("O", subject_transforms=[transform("o.*", "m.$1")])})
    await copied(probe, "M", last_seq=3)
    await probe.publish("m.a", b"refused")
    await probe.publish("m.a", b"refused", {"Nats-Expected-Stream": "M"})
    await probe.update({"name": "M", "subjects": ["m.>"], "mirror": upstream("O")}, "subjects of a mirror")
    await probe.state("M")


@copying
async def a_mirror_is_promoted(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=3)
    await probe.update({"name": "M", "subjects": ["m.>"]}, "promotion")
    await probe.publish("m.a", b"mine")
    await add(probe, ABC, 4)
    await probe.publish("m.b", b"mine too")
    await mirrored(probe, "O", "M")
    await upstreams(probe, "M")
    await probe.update({"name": "M", "subjects": ["m.>"], "mirror": upstream("O")}, "a mirror again")


@copying
async def a_mirror_is_mirrored(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    await probe.quietly("STREAM.MSG.DELETE.O", {"seq": 4})
    await probe.create(MIRROR)
    await probe.create({"name": "MM", "mirror": upstream("M")})
    await copied(probe, "MM", last_seq=6)
    await add(probe, ABC, 7)
    await copied(probe, "MM", last_seq=9)
    await mirrored(probe, "O", "MM")
    await upstreams(probe, "MM")


@copying
async def a_mirror_waits_for_its_origin(probe: Probe) -> None:
    await probe.create(MIRROR)
    await probe.state("M")
    await fill(probe, "O", ABC)
    await copied(probe, "M", last_seq=3)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_is_deleted_and_made_again(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=3)
    await probe.api("STREAM.DELETE.M")
    await probe.state("O")
    await probe.create(MIRROR, "made again")
    await copied(probe, "M", last_seq=3)
    await mirrored(probe, "O", "M")


@copying
async def rollups_and_lives_of_messages_depend_on_the_mirror(probe: Probe) -> None:
    await fill(probe, "O", ABC, allow_rollup_hdrs=True, allow_msg_ttl=True)
    await probe.ask("o.a", b"sum", {"Nats-Rollup": "sub"})
    await probe.ask("o.b", b"short", {"Nats-TTL": "1h"})
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=5)
    await mirrored(probe, "O", "M")
    await probe.create(
        {"name": "R", "mirror": upstream("O"), "allow_rollup_hdrs": True, "allow_msg_ttl": True}
    )
    await copied(probe, "R", last_seq=5)
    await mirrored(probe, "O", "R")


@copying
async def duplicates_do_not_stop_a_mirror(probe: Probe) -> None:
    await fill(probe, "O", [], duplicate_window=100_000_000)
    for number in range(3):
        await probe.ask("o.a", b"%d" % number, {"Nats-Msg-Id": f"id {number}"})
    await probe.create(MIRROR | {"duplicate_window": 120_000_000_000})
    await copied(probe, "M", last_seq=3)
    await mirrored(probe, "O", "M")


@copying
async def a_mirror_has_consumers(probe: Probe) -> None:
    await fill(probe, "O", ABC * 2)
    await probe.create(MIRROR)
    await copied(probe, "M", last_seq=6)
    used = Used(probe, "M", "C")
    await used.create(filter_subject="o.b")
    first, second = await used.fetch({"batch": 2}, 2)
    await used.ack(first)
    await used.ack(second)
    await used.settle(num_ack_pending=0)


@copying
async def direct_gets_are_answered_by_a_mirror(probe: Probe) -> None:
    await fill(probe, "O", ABC, allow_direct=True)
    await probe.create(MIRROR | {"allow_direct": True, "mirror_direct": True})
    await copied(probe, "M", last_seq=3)
    await probe.direct("M", {"seq": 2})
    await probe.direct("M.o.c")
    await probe.direct("M", {"seq": 1, "batch": 5})
    await probe.direct("M", {"multi_last": ["o.*"]})
    # Only the mirror is left to answer for it.
    await probe.quietly("STREAM.DELETE.O")
    await probe.direct("O", {"seq": 2}, "of the origin, which is gone")


@copying
async def a_mirror_ages_by_the_time_of_the_origin(probe: Probe) -> None:
    await fill(probe, "O", ABC)
    await probe.create(MIRROR | {"max_age": 1_000_000_000})
    await copied(probe, "M", last_seq=3, messages=0)
    await add(probe, ABC, 4)
    await copied(probe, "M", last_seq=6, messages=0)
