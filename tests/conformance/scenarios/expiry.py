"""Per-message TTLs, and the markers that tell of a subject's end."""

from conformance.probe import Probe
from conformance.scenario import scenario

SECOND = 1_000_000_000


@scenario
async def a_ttl_is_checked(probe: Probe) -> None:
    await probe.create({"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True})
    for value in (
        "never",
        "1",
        "60",
        "1s",
        "1m30s",
        "1h",
        "500ms",
        "0",
        "0s",
        "-1",
        "-5s",
        "x",
        "",
        "1.5s",
        "NEVER",
    ):
        await probe.publish("t.a", b"", {"Nats-TTL": value}, label=f"ttl '{value}'")
    await probe.state("T")


@scenario
async def a_message_leaves_when_its_time_is_over(probe: Probe) -> None:
    await probe.create({"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True, "max_msgs": 100})
    await probe.publish("t.stays", b"first")
    await probe.publish("t.goes", b"one", {"Nats-TTL": "1s"})
    await probe.publish("t.goes", b"two", {"Nats-TTL": "1"})
    await probe.publish("t.stays", b"last", {"Nats-TTL": "1h"})
    await probe.settle("T", lambda state: state["messages"] == 2)
    await probe.state("T", subjects_filter=">", deleted_details=True)
    await probe.contents("T")


@scenario
async def only_never_outlives_the_age_limit(probe: Probe) -> None:
    config = {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True, "max_age": SECOND}
    await probe.create(config)
    await probe.publish("t.a", b"kept", {"Nats-TTL": "never"})
    await probe.publish("t.a", b"aged")
    await probe.publish("t.b", b"longer than the age", {"Nats-TTL": "1h"})
    await probe.publish("t.b", b"aged")
    await probe.settle("T", lambda state: state["messages"] == 1)
    await probe.contents("T")


@scenario
async def a_marker_tells_that_a_subject_ran_out(probe: Probe) -> None:
    config = {
        "name": "T",
        "subjects": ["t.>"],
        "max_age": SECOND,
        "subject_delete_marker_ttl": 60 * SECOND,
    }
    await probe.create(config)
    await probe.publish("t.a", b"one")
    await probe.publish("t.a", b"two")
    await probe.publish("t.b", b"one")
    await probe.settle("T", lambda state: state["last_seq"] == 5 and state["messages"] == 2)
    found = await probe.quietly("STREAM.INFO.T", {"subjects_filter": ">"})
    probe.record("subjects left", "$JS.API.STREAM.INFO.T", found["state"]["subjects"])
    for subject in ("t.a", "t.b"):
        # Which of two subjects is marked first is up to the server; what the marker says is not.
        answer = await probe.quietly("STREAM.MSG.GET.T", {"last_by_subj": subject})
        shown = {key: answer["message"].get(key) for key in ("subject", "hdrs", "data")}
        probe.record(f"marker of {subject}", "$JS.API.STREAM.MSG.GET.T", shown)


@scenario
async def a_marker_follows_an_expired_ttl(probe: Probe) -> None:
    config = {
        "name": "T",
        "subjects": ["t.>"],
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 2 * SECOND,
    }
    await probe.create(config)
    await probe.publish("t.a", b"one")
    await probe.publish("t.a", b"two", {"Nats-TTL": "2s"})
    await probe.publish("t.b", b"three", {"Nats-TTL": "2s"})
    await probe.settle("T", lambda state: state["last_seq"] == 4)
    await probe.contents("T")


@scenario
async def a_ttl_below_the_marker_s_is_raised(probe: Probe) -> None:
    config = {
        "name": "T",
        "subjects": ["t.>"],
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 60 * SECOND,
    }
    await probe.create(config)
    for value in ("1s", "59", "60s", "61", "never"):
        await probe.publish("t.a", b"", {"Nats-TTL": value, "Own": "header"})
    await probe.contents("T")


@scenario
async def a_marker_is_gone_in_time(probe: Probe) -> None:
    config = {"name": "T", "subjects": ["t.>"], "max_age": SECOND, "subject_delete_marker_ttl": SECOND}
    await probe.create(config)
    await probe.publish("t.a", b"one")
    await probe.settle("T", lambda state: state["last_seq"] == 2 and state["messages"] == 0)


@scenario
async def deleting_and_purging_leave_markers_only_where_configured(probe: Probe) -> None:
    config = {
        "name": "T",
        "subjects": ["t.>"],
        "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 60 * SECOND,
    }
    await probe.create(config)
    for subject in ("t.a", "t.b", "t.c", "t.a"):
        await probe.publish(subject, b"x")
    await probe.api("STREAM.MSG.DELETE.T", {"seq": 2})
    await probe.state("T", subjects_filter=">")
    await probe.api("STREAM.PURGE.T", {"filter": "t.a"})
    await probe.state("T", subjects_filter=">")
    await probe.api("STREAM.PURGE.T")
    await probe.state("T", subjects_filter=">")
    await probe.contents("T")


@scenario
async def a_rollup_may_carry_a_ttl(probe: Probe) -> None:
    config = {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True, "allow_rollup_hdrs": True}
    await probe.create(config)
    await probe.publish("t.a", b"one")
    await probe.publish("t.a", b"two")
    await probe.publish("t.a", b"", {"Nats-Rollup": "sub", "Nats-TTL": "1s", "KV-Operation": "PURGE"})
    await probe.contents("T")
    await probe.settle("T", lambda state: state["messages"] == 0)
    await probe.publish("t.a", b"", {"Nats-TTL": "1h"})
    await probe.update(config | {"allow_msg_ttl": False})
