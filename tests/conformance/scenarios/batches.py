"""Atomic batches: all of its messages are stored, or none."""

from conformance.probe import Probe
from conformance.scenario import scenario


def batch(id: str, seq: int, commit: str | None = None, **more: str) -> dict[str, str]:
    """Return the headers of one message of a batch."""
    headers = {"Nats-Batch-Id": id, "Nats-Batch-Sequence": str(seq)}
    if commit is not None:
        headers["Nats-Batch-Commit"] = commit
    return headers | {key.replace("_", "-"): value for key, value in more.items()}


@scenario
async def a_batch_is_stored_when_it_commits(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True})
    await probe.publish("b.before", b"")
    await probe.publish("b.1", b"one", batch("x", 1))
    await probe.publish("b.2", b"two", batch("x", 2))
    await probe.state("B")
    await probe.publish("b.outside", b"between")
    await probe.publish("b.3", b"three", batch("x", 3, "1"))
    await probe.contents("B")
    await probe.publish("b.1", b"alone", batch("y", 1, "1"))
    await probe.publish("b.1", b"one", batch("z", 1))
    await probe.send("b.2", b"silent", batch("z", 2))
    await probe.publish("b.3", b"not stored", batch("z", 3, "eob"))
    await probe.contents("B")
    await probe.state("B")


@scenario
async def a_batch_with_a_gap_is_dropped(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True})
    await probe.publish("b.1", b"", batch("gap", 1))
    await probe.publish("b.3", b"", batch("gap", 3))
    await probe.publish("b.4", b"", batch("gap", 4, "1"))
    await probe.publish("b.2", b"", batch("late", 2))
    await probe.publish("b.2", b"", batch("late", 2, "1"))
    await probe.publish("b.1", b"", batch("long" * 17, 1), label="a long id")
    await probe.publish("b.1", b"", {"Nats-Batch-Id": "s", "Nats-Batch-Sequence": "x"}, label="no number")
    await probe.publish("b.1", b"", {"Nats-Batch-Id": "s"}, label="no sequence")
    await probe.publish("b.1", b"", {"Nats-Batch-Sequence": "1"}, label="no id")
    await probe.publish("b.1", b"", batch("c", 0), label="sequence zero")
    await probe.publish("b.1", b"", batch("c", 1, "yes"), label="a strange commit")
    await probe.publish("b.1", b"", batch("e", 1, "eob"), label="an end and nothing before")
    await probe.state("B")


@scenario
async def a_batch_is_checked_as_a_whole(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True, "allow_rollup_hdrs": True})
    await probe.publish("b.a", b"first")
    await probe.publish("b.a", b"", batch("last", 1, Nats_Expected_Last_Sequence="9"))
    await probe.publish("b.b", b"", batch("last", 2, "1"))
    await probe.publish("b.a", b"", batch("right", 1, Nats_Expected_Last_Sequence="1"))
    await probe.publish("b.b", b"", batch("right", 2, "1"))
    await probe.publish("b.a", b"", batch("second", 1))
    await probe.publish("b.b", b"", batch("second", 2, Nats_Expected_Last_Sequence="3"))
    await probe.publish("b.b", b"", batch("second", 3, "1"))
    await probe.publish("b.c", b"", batch("subject", 1, Nats_Expected_Last_Subject_Sequence="0"))
    await probe.publish("b.a", b"", batch("subject", 2, "1", Nats_Expected_Last_Subject_Sequence="2"))
    await probe.publish("b.c", b"", batch("twice", 1))
    await probe.publish("b.c", b"", batch("twice", 2, "1", Nats_Expected_Last_Subject_Sequence="4"))
    await probe.publish("b.d", b"", batch("msgid", 1, Nats_Expected_Last_Msg_Id="x"))
    await probe.publish("b.d", b"", batch("msgid", 2, "1"))
    await probe.publish("b.d", b"", batch("id", 1, Nats_Msg_Id="one"))
    await probe.publish("b.d", b"", batch("id", 2, "1", Nats_Msg_Id="two"))
    await probe.publish("b.d", b"", batch("again", 1, Nats_Msg_Id="one"))
    await probe.publish("b.d", b"", batch("again", 2, "1"))
    await probe.publish("b.d", b"", batch("same", 1, Nats_Msg_Id="s"))
    await probe.publish("b.d", b"", batch("same", 2, "1", Nats_Msg_Id="s"))
    await probe.publish("b.a", b"", batch("roll", 1, Nats_Rollup="sub"))
    await probe.publish("b.d", b"", batch("roll", 2, "1"))
    await probe.contents("B")


@scenario
async def a_batch_is_refused_where_it_is_off(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"]})
    await probe.publish("b.a", b"", batch("x", 1))
    await probe.publish("b.a", b"", batch("x", 2, "1"))
    await probe.state("B")


@scenario
async def a_batch_obeys_the_limits(probe: Probe) -> None:
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True, "max_msgs": 3, "max_msg_size": 50}
    await probe.create(config | {"discard": "new"})
    await probe.publish("b.a", b"")
    for seq in (1, 2, 3):
        await probe.publish("b.a", b"", batch("many", seq, "1" if seq == 3 else None))
    await probe.publish("b.a", b"x" * 60, batch("large", 1))
    await probe.publish("b.a", b"", batch("large", 2, "1"))
    await probe.state("B")
    await probe.update(config)
    for seq in (1, 2, 3):
        await probe.publish("b.a", b"", batch("old", seq, "1" if seq == 3 else None))
    await probe.state("B")


@scenario
async def a_batch_has_a_bounded_length(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b"], "allow_atomic": True})
    await probe.publish("b", b"", batch("long", 1))
    for seq in range(2, 1000):
        await probe.nc.publish("b", b"", headers=batch("long", seq))
    await probe.publish("b", b"", batch("long", 1000, "1"), label="a thousand")
    await probe.publish("b", b"", batch("longer", 1))
    for seq in range(2, 1001):
        await probe.nc.publish("b", b"", headers=batch("longer", seq))
    await probe.publish("b", b"", batch("longer", 1001, "1"), label="one more")
    await probe.state("B")
