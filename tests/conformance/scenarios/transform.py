"""Subject transforms of a stream: the subject that is stored is not the one that was published."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_transform_changes_the_stored_subject(probe: Probe) -> None:
    transform = {"src": "in.*.*", "dest": "out.{{wildcard(2)}}.$1"}
    config = {"name": "T", "subjects": ["in.>"], "subject_transform": transform, "allow_direct": True}
    await probe.create(config)
    await probe.publish("in.a.b", b"one", {"Nats-Expected-Last-Subject-Sequence": "0"})
    await probe.publish("in.a.b", b"two", {"Nats-Expected-Last-Subject-Sequence": "1"})
    await probe.publish("in.other", b"unchanged")
    await probe.publish("out.b.a", b"nobody listens")
    await probe.state("T", subjects_filter=">")
    await probe.contents("T")
    await probe.direct("T.out.b.a")
    await probe.direct("T.in.a.b")
    await probe.api("STREAM.PURGE.T", {"filter": "out.>"})
    await probe.update({"name": "T", "subjects": ["in.>"]})
    await probe.publish("in.a.b", b"as it is")
    await probe.contents("T")


DESTINATIONS = {
    "partition": ("*.*", "p.{{partition(5,1,2)}}.$1"),
    "partition of all": ("*.*", "p.{{partition(7)}}"),
    "split": ("*", "s.{{split(1,-)}}"),
    "split from left": ("*", "s.{{splitfromleft(1,2)}}"),
    "split from right": ("*", "s.{{SplitFromRight(1,2)}}"),
    "slice from left": ("*", "s.{{slicefromleft(1,2)}}"),
    "slice from right": ("*", "s.{{sliceFromRight(1,3)}}"),
    "left": ("*", "s.{{left(1,3)}}"),
    "right": ("*", "s.{{right(1,3)}}"),
    "swapped": ("*.*", "$2.$1"),
    "prefix": (">", "pre.>"),
    "spaces": ("*.*", "p.{{ Wildcard( 2 ) }}.{{wildcard(1)}}"),
}


@scenario
async def every_function_maps_the_same(probe: Probe) -> None:
    for label, (src, dest) in DESTINATIONS.items():
        transform = {"src": f"in.{src}", "dest": dest}
        await probe.create({"name": "T", "subjects": ["in.>"], "subject_transform": transform}, label=label)
        for subject in ("a.b", "abc-def-gh", "x", "hello.world", "one.two", "-a-", "12345.6"):
            await probe.ask(f"in.{subject}", b"")
        await probe.contents("T")
        await probe.quietly("STREAM.DELETE.T")


@scenario
async def a_transform_comes_before_republish_and_limits(probe: Probe) -> None:
    await probe.create(
        {
            "name": "T",
            "subjects": ["in.*"],
            "subject_transform": {"src": "in.*", "dest": "kept.one"},
            "republish": {"src": "kept.>", "dest": "copy.>"},
            "max_msgs_per_subject": 2,
        }
    )
    async with probe.listening("copy.>") as heard:
        for subject in ("in.a", "in.b", "in.c"):
            await probe.publish(subject, subject.encode())
        await heard.take(3)
    await probe.contents("T")
