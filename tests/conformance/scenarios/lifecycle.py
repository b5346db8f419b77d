"""Streams from creation to deletion: defaults, idempotency, listing, paging and what is refused."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_minimal_config_gets_the_defaults(probe: Probe) -> None:
    await probe.create({"name": "PLAIN"})
    await probe.api("STREAM.INFO.PLAIN")
    await probe.api("STREAM.LIST")
    await probe.api("STREAM.NAMES")
    await probe.api("STREAM.DELETE.PLAIN")
    await probe.api("STREAM.INFO.PLAIN")
    await probe.api("STREAM.DELETE.PLAIN")
    await probe.api("STREAM.LIST")
    await probe.api("STREAM.NAMES")


FULL = {
    "name": "FULL",
    "description": "every field that a standalone server takes",
    "subjects": ["full.>", "more.*.full"],
    "retention": "limits",
    "max_consumers": 7,
    "max_msgs": 1000,
    "max_bytes": 1_000_000,
    "max_age": 3_600_000_000_000,
    "max_msgs_per_subject": 50,
    "max_msg_size": 10_000,
    "discard": "new",
    "discard_new_per_subject": True,
    "storage": "file",
    "num_replicas": 1,
    "duplicate_window": 60_000_000_000,
    "compression": "s2",
    "first_seq": 100,
    "subject_transform": {"src": "full.*", "dest": "full.{{wildcard(1)}}"},
    "republish": {"src": "full.>", "dest": "copy.>", "headers_only": True},
    "allow_direct": True,
    "deny_delete": True,
    "deny_purge": False,
    "allow_rollup_hdrs": True,
    "consumer_limits": {"inactive_threshold": 60_000_000_000, "max_ack_pending": 10},
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": 5_000_000_000,
    "metadata": {"owner": "orders", "tier": "gold"},
}


@scenario
async def every_field_is_stored_and_shown(probe: Probe) -> None:
    await probe.create(FULL)
    await probe.api("STREAM.INFO.FULL")
    await probe.api("STREAM.LIST")
    await probe.update(FULL | {"description": "changed", "metadata": {"owner": "billing"}})
    await probe.api("STREAM.INFO.FULL")


@scenario
async def zero_and_negative_limits_mean_none(probe: Probe) -> None:
    zero = {"max_consumers": 0, "max_msgs": 0, "max_bytes": 0, "max_msgs_per_subject": 0, "max_msg_size": 0}
    await probe.create({"name": "ZERO", "max_age": 0} | zero)
    await probe.create({"name": "NEGATIVE"} | dict.fromkeys(zero, -5))
    await probe.create({"name": "SHORT", "max_age": 60_000_000_000})
    await probe.create({"name": "WINDOWLESS", "duplicate_window": 0})
    await probe.create({"name": "MEMORY", "storage": "memory"})
    await probe.create({"name": "EMPTIES", "description": "", "subjects": [], "metadata": {}, "sources": []})
    await probe.create(
        {"name": "NULLS", "subjects": None, "metadata": None, "mirror": None, "placement": None}
    )
    await probe.create({"name": "PLACED", "placement": {}})
    await probe.create({"name": "REPLICAS", "num_replicas": 0})


@scenario
async def creating_again_is_idempotent_for_the_same_config_only(probe: Probe) -> None:
    config = {"name": "SAME", "subjects": ["same.a", "same.b"], "max_msgs": 10, "metadata": {"a": "b"}}
    await probe.create(config)
    await probe.publish("same.a", b"one")
    await probe.create(config, label="created again")
    await probe.create(
        config | {"max_bytes": -1, "discard": "old"}, label="created with defaults written out"
    )
    await probe.create(config | {"subjects": ["same.b", "same.a"]}, label="created with other order")
    await probe.create(config | {"max_msgs": 11}, label="created with another limit")
    await probe.create(config | {"metadata": {"a": "c"}}, label="created with other metadata")
    await probe.create(config | {"description": "x"}, label="created with a description")
    info = await probe.api("STREAM.INFO.SAME")
    await probe.create(info["config"], label="created with what info shows")


@scenario
async def updating_changes_the_config_and_keeps_the_messages(probe: Probe) -> None:
    config = {"name": "CHANGING", "subjects": ["ch.a"]}
    await probe.create(config)
    await probe.publish("ch.a", b"one")
    await probe.update(config | {"subjects": ["ch.a", "ch.b"], "max_msgs": 5, "description": "new"})
    await probe.publish("ch.b", b"two")
    await probe.update(config | {"subjects": ["ch.b"]})
    await probe.publish("ch.a", b"nobody listens")
    await probe.publish("ch.b", b"three")
    await probe.contents("CHANGING")
    await probe.update(config | {"name": "ABSENT"})
    await probe.api("STREAM.UPDATE.CHANGING", config | {"name": "OTHER"})
    await probe.update(config | {"storage": "memory"})
    await probe.update(config | {"retention": "workqueue"})
    await probe.update(config | {"max_consumers": 3})
    await probe.update(config | {"num_replicas": 3})
    await probe.update(config | {"first_seq": 50})
    await probe.update(config | {"allow_msg_counter": True})
    await probe.update(config | {"persist_mode": "async"})
    await probe.update(config | {"mirror": {"name": "OTHER"}})
    await probe.update(config | {"compression": "s2"})
    await probe.update({"name": "CHANGING"})
    await probe.api("STREAM.INFO.CHANGING")


@scenario
async def interest_may_come_later(probe: Probe) -> None:
    config = {"name": "LATER", "subjects": ["later"]}
    await probe.create(config)
    await probe.fill("later", b"one", b"two", b"three")
    await probe.update(config | {"retention": "interest"})
    await probe.settle("LATER", lambda state: state["messages"] == 0)
    await probe.publish("later", b"four")
    await probe.update(config)
    await probe.publish("later", b"five")
    await probe.contents("LATER")


@scenario
async def a_stream_of_a_used_name_is_a_new_one(probe: Probe) -> None:
    for _ in range(5):
        await probe.create({"name": "AGAIN", "subjects": ["again"]})
        await probe.publish("again", b"x", {"Nats-Msg-Id": "1"})
        await probe.contents("AGAIN")
        await probe.api("STREAM.DELETE.AGAIN")


@scenario
async def some_switches_go_one_way(probe: Probe) -> None:
    config = {"name": "LATCH", "deny_delete": True, "deny_purge": True, "allow_msg_ttl": True}
    await probe.create(config)
    await probe.update(config | {"deny_delete": False})
    await probe.update(config | {"deny_purge": False})
    await probe.update(config | {"allow_msg_ttl": False})
    await probe.create({"name": "TIMED", "allow_msg_schedules": True})
    await probe.update({"name": "TIMED"})
    await probe.create({"name": "ASYNC", "persist_mode": "async"})
    await probe.update({"name": "ASYNC"})


@scenario
async def sealing_closes_a_stream(probe: Probe) -> None:
    config = {
        "name": "SEALED",
        "subjects": ["sealed.>"],
        "max_age": 60_000_000_000,
        "allow_rollup_hdrs": True,
    }
    await probe.create(config | {"sealed": True})
    await probe.create(config)
    await probe.publish("sealed.a", b"kept")
    await probe.update(config | {"sealed": True})
    await probe.publish("sealed.a", b"refused")
    await probe.api("STREAM.PURGE.SEALED")
    await probe.api("STREAM.MSG.DELETE.SEALED", {"seq": 1})
    await probe.api("STREAM.MSG.GET.SEALED", {"seq": 1})
    await probe.update(config)
    await probe.update(config | {"sealed": True, "description": "still changeable?"})
    await probe.api("STREAM.INFO.SEALED")
    await probe.api("STREAM.DELETE.SEALED")


@scenario
async def subjects_may_not_overlap_with_another_stream(probe: Probe) -> None:
    await probe.create({"name": "FIRST", "subjects": ["a.*", "b.c"]})
    for subject in ("a.x", "a.>", ">", "*.c", "b.c", "FIRST"):
        await probe.create({"name": "SECOND", "subjects": [subject]}, label=f"overlap with {subject}")
        await probe.api("STREAM.DELETE.SECOND")
    await probe.create({"name": "SECOND", "subjects": ["c"]})
    await probe.update({"name": "SECOND", "subjects": ["b.*"]})
    await probe.update({"name": "FIRST", "subjects": ["c"]})
    await probe.update({"name": "FIRST", "subjects": ["b.c"]})
    await probe.update({"name": "SECOND", "subjects": ["a.>"]})


@scenario
async def names_and_lists_are_sorted_and_filtered_by_subject(probe: Probe) -> None:
    for name, subjects in (
        ("ZEBRA", ["z.>"]),
        ("apple", ["a.b"]),
        ("MANGO", ["m.*.x", "a.c"]),
        ("BEAN", ["q"]),
    ):
        await probe.create({"name": name, "subjects": subjects})
    await probe.create({"name": "COPY", "mirror": {"name": "BEAN"}})
    for subject in ("a.b", "a.*", "a.>", ">", "z.1.2.3", "m.1.x", "m.1", "q", "nothing", "a..b", "*", ""):
        await probe.api("STREAM.NAMES", {"subject": subject}, label=f"names for '{subject}'")
    for body in ({"subject": "a.*"}, {"subject": "none"}, {"offset": 2}, {"offset": 99}, {"offset": -3}):
        await probe.api("STREAM.NAMES", body, label=f"names {body}")
    await probe.api("STREAM.LIST", {"subject": "q"}, label="list for q")
    await probe.api("STREAM.LIST", {"offset": 99}, label="list beyond the end")


@scenario
async def more_names_than_a_page_come_in_pages(probe: Probe) -> None:
    for number in range(260):
        await probe.quietly(
            f"STREAM.CREATE.PAGE{number:03d}", {"name": f"PAGE{number:03d}", "storage": "memory"}
        )
    await probe.api("STREAM.NAMES")
    for offset in (0, 250, 256, 259, 260):
        page = await probe.quietly("STREAM.LIST", {"offset": offset})
        page["streams"] = [stream["config"]["name"] for stream in page["streams"]]
        probe.record(f"list from {offset}", "$JS.API.STREAM.LIST", page)


@scenario
async def what_is_no_request_is_refused(probe: Probe) -> None:
    await probe.create({"name": "GOOD", "subjects": ["good"]})
    await probe.api("STREAM.CREATE.A", {"name": "B"}, label="name mismatch")
    await probe.api("STREAM.CREATE.A", b"", label="create with nothing")
    await probe.api("STREAM.CREATE.A", b"{}", label="create without a name")
    await probe.api("STREAM.CREATE.A", b'{"name":"A"', label="torn JSON")
    await probe.api("STREAM.CREATE.A", b"[]", label="a list")
    await probe.api("STREAM.CREATE.A", b"null", label="null")
    await probe.api("STREAM.CREATE.A", b'"A"', label="a string")
    await probe.api("STREAM.CREATE.A", b"\xff\xfe", label="no text at all")
    await probe.api("STREAM.CREATE.A", b'{"name":"A"} trailing', label="trailing text")
    await probe.api("STREAM.CREATE.A", {"name": "A", "wings": 2}, label="an unknown key")
    await probe.api("STREAM.CREATE.A", {"name": "A", "max_msgs": "ten"}, label="a string for a number")
    await probe.api("STREAM.CREATE.A", {"name": "A", "max_msgs": 1.5}, label="a fraction for an integer")
    await probe.api("STREAM.CREATE.A", {"name": "A", "subjects": "a"}, label="a string for a list")
    await probe.api("STREAM.CREATE.A", {"name": "A", "storage": "tape"}, label="an unknown storage")
    await probe.api("STREAM.CREATE.A", {"name": "A", "retention": "forever"}, label="an unknown retention")
    await probe.api("STREAM.CREATE.A", {"name": "A", "discard": "some"}, label="an unknown discard")
    await probe.api("STREAM.CREATE.A", {"name": "A", "compression": "zip"}, label="an unknown compression")
    await probe.api("STREAM.CREATE.A", {"name": "A", "max_msgs": 2**63}, label="a number out of range")
    await probe.api("STREAM.CREATE.A", {"NAME": "A"}, label="an upper case key")
    await probe.api("STREAM.DELETE.A")
    await probe.api("STREAM.UPDATE.GOOD", b"{", label="torn update")
    await probe.api("STREAM.UPDATE.GOOD", b"", label="empty update")
    await probe.api("STREAM.UPDATE.GOOD", {"name": "GOOD", "wings": 2}, label="unknown key in an update")
    await probe.api("STREAM.INFO.GOOD", b"{", label="torn info")
    await probe.api("STREAM.INFO.GOOD", {"wings": 2}, label="unknown key in info")
    await probe.api("STREAM.NAMES", b"{", label="torn names")
    await probe.api("STREAM.LIST", b"{", label="torn list")
    await probe.api("STREAM.PURGE.GOOD", b"{", label="torn purge")
    await probe.api("STREAM.MSG.GET.GOOD", b"", label="empty get")
    await probe.api("STREAM.MSG.GET.GOOD", b"{", label="torn get")
    await probe.api("STREAM.MSG.DELETE.GOOD", b"", label="empty message delete")
    await probe.api("STREAM.MSG.DELETE.GOOD", b"{", label="torn message delete")
    await probe.api("INFO", b"anything", label="account info with a body")
    await probe.api("STREAM.INFO.GOOD", label="still there")
    await probe.api("STREAM.DELETE.GOOD", b"anything", label="delete with a body")
    await probe.api("STREAM.INFO.GOOD", label="after a delete with a body")


@scenario
async def requests_for_an_absent_stream_say_so(probe: Probe) -> None:
    await probe.api("STREAM.INFO.NONE")
    await probe.api("STREAM.UPDATE.NONE", {"name": "NONE"})
    await probe.api("STREAM.DELETE.NONE")
    await probe.api("STREAM.PURGE.NONE")
    await probe.api("STREAM.MSG.GET.NONE", {"seq": 1})
    await probe.api("STREAM.MSG.DELETE.NONE", {"seq": 1})
    await probe.api("STREAM.SNAPSHOT.NONE", {"deliver_subject": "x"})
    await probe.direct("NONE", {"seq": 1})
    await probe.publish("NONE", b"nobody listens")


@scenario
async def requests_that_only_a_cluster_answers(probe: Probe) -> None:
    await probe.create({"name": "ALONE"})
    await probe.api("STREAM.PEER.REMOVE.ALONE", {"peer": "x"}, timeout=0.5)
    await probe.api("STREAM.LEADER.STEPDOWN.ALONE", timeout=0.5)
    await probe.api("META.LEADER.STEPDOWN", timeout=0.5)
    await probe.api("STREAM.TEMPLATE.CREATE.X", b"{}", timeout=0.5)
    await probe.api("NO.SUCH.THING", timeout=0.5)


@scenario
async def hostile_names_are_refused(probe: Probe) -> None:
    long = "n" * 255
    await probe.api(f"STREAM.CREATE.{long}", {"name": long}, label="255 characters")
    await probe.api(f"STREAM.DELETE.{long}", label="delete 255 characters")
    await probe.api(f"STREAM.CREATE.{long}n", {"name": long + "n"}, label="256 characters")
    for name in ("a/b", "a\\b", "C:\\x", "~", "-rf", "%2e%2e", "CON", "name\u00fc", "$G", "a:b", "a|b", "'"):
        await probe.api(f"STREAM.CREATE.{name}", {"name": name}, label=f"name {name}")
        await probe.publish(name, b"x", label=f"publish to {name}")
        await probe.api(f"STREAM.INFO.{name}", label=f"info {name}")
        await probe.api(f"STREAM.DELETE.{name}", label=f"delete {name}")
    for name in ("../x", "..", ".", "a.b", "a b", "a*", "a>", ">", "*", "", "a\tb", "a\nb", "a\x00b", "\x7f"):
        await probe.api("STREAM.CREATE.A", {"name": name}, label=f"name {name!r} in the body")
    await probe.api("STREAM.NAMES")


@scenario
async def info_lists_subjects_and_deleted_sequences_on_demand(probe: Probe) -> None:
    await probe.create({"name": "DETAIL", "subjects": ["d.>"]})
    await probe.state("DETAIL", subjects_filter=">")
    await probe.state("DETAIL", deleted_details=True)
    for subject in ("d.a", "d.b", "d.a.x", "d.b", "d.c", "d.b"):
        await probe.publish(subject, b"x")
    for filtered in (">", "d.*", "d.b", "d.a.>", "nothing", "*"):
        await probe.api("STREAM.INFO.DETAIL", {"subjects_filter": filtered}, label=f"subjects {filtered}")
    await probe.api("STREAM.INFO.DETAIL", {"subjects_filter": ">", "offset": 2}, label="subjects from 2")
    await probe.api("STREAM.INFO.DETAIL", {"subjects_filter": ">", "offset": 99}, label="subjects from 99")
    await probe.api("STREAM.INFO.DETAIL", {"offset": 2}, label="offset alone")
    await probe.api("STREAM.INFO.DETAIL", {"subjects_filter": "d..b"}, label="an invalid filter")
    await probe.api("STREAM.MSG.DELETE.DETAIL", {"seq": 3})
    await probe.api("STREAM.MSG.DELETE.DETAIL", {"seq": 4})
    await probe.state("DETAIL")
    await probe.state("DETAIL", deleted_details=True)
    await probe.state("DETAIL", deleted_details=True, subjects_filter=">")
    await probe.api("STREAM.MSG.DELETE.DETAIL", {"seq": 1})
    await probe.state("DETAIL", deleted_details=True)
    await probe.api("STREAM.MSG.DELETE.DETAIL", {"seq": 6})
    await probe.state("DETAIL", deleted_details=True)


@scenario
async def the_official_client_manages_streams(probe: Probe) -> None:
    js = probe.js
    await probe.call("add_stream", js.add_stream(name="PY", subjects=["py.>"], max_age=3600, max_msgs=100))
    await probe.call(
        "add_stream again", js.add_stream(name="PY", subjects=["py.>"], max_age=3600, max_msgs=100)
    )
    await probe.call("add_stream otherwise", js.add_stream(name="PY", subjects=["py.>"]))
    await probe.call("publish", js.publish("py.a", b"one", headers={"A": "b"}))
    await probe.call("publish expecting", js.publish("py.b", b"two", stream="PY"))
    await probe.call("publish expecting another", js.publish("py.b", b"two", stream="OTHER"))
    await probe.call("publish to nobody", js.publish("nobody", b""))
    await probe.call("stream_info", js.stream_info("PY"))
    await probe.call("stream_info with subjects", js.stream_info("PY", subjects_filter=">"))
    await probe.call("streams_info", js.streams_info())
    await probe.call("find_stream_name_by_subject", js.find_stream_name_by_subject("py.x.y"))
    await probe.call("find nothing", js.find_stream_name_by_subject("zz"))
    await probe.call("get_msg", js.get_msg("PY", seq=1))
    await probe.call("get_msg by subject", js.get_msg("PY", subject="py.*", next=True, seq=1))
    await probe.call("get_last_msg", js.get_last_msg("PY", "py.b"))
    await probe.call("get_last_msg of nothing", js.get_last_msg("PY", "py.z"))
    await probe.call("get_msg direct while off", js.get_msg("PY", seq=1, direct=True))
    await probe.call("update_stream", js.update_stream(name="PY", subjects=["py.>"], allow_direct=True))
    await probe.call("get_msg direct", js.get_msg("PY", seq=1, direct=True))
    await probe.call("get_last_msg direct", js.get_last_msg("PY", "py.b", direct=True))
    await probe.call("get_msg direct of nothing", js.get_msg("PY", seq=9, direct=True))
    await probe.call("delete_msg", js.delete_msg("PY", 1))
    await probe.call("delete_msg again", js.delete_msg("PY", 1))
    await probe.call("purge_stream", js.purge_stream("PY", subject="py.b"))
    await probe.call("account_info", js.account_info())
    await probe.call("delete_stream", js.delete_stream("PY"))
    await probe.call("delete_stream again", js.delete_stream("PY"))
