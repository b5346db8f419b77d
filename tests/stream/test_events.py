"""What happens to a stream is reported once it is durable, and failing callbacks stop nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import ApiError
from headwater.stream import committer
from headwater.stream.publishing.atomic_batch import Abandoned
from headwater.stream.retention.hold import Hold
from simulation.disks import BreakableDisk, Fault
from stream.followers import Followed
from stream.streams import Workshop, everything, publish
from waits import until


async def test_a_listener_is_called_for_durable_messages_and_for_removals_at_once(
    workshop: Workshop,
) -> None:
    async with workshop.stream(max_msgs=3) as stream:
        followed = Followed(stream)
        stream.publishing.offer([(b"a", b"", b"", b"")] * 2)
        assert followed.stored == []
        await stream.publishing.settled()
        assert followed.stored == [(1, 2)]
        await publish(stream, (b"a", b""), (b"a", b""))
        assert (followed.stored, followed.removed) == ([(1, 2), (3, 4)], [1])
        await stream.retention.remove(3)
        assert followed.removed == [1, 3]


async def test_after_a_refused_write_the_listener_is_called_for_the_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    async with workshop.stream() as stream:
        followed = Followed(stream)
        await publish(stream, (b"a", b"1"))
        disk.break_always(Fault.REFUSED)
        stream.publishing.offer([(b"a", b"r", b"", b"2")])
        with pytest.raises(ApiError, match="cannot write"):
            await stream.publishing.settled()
        disk.heal()
        assert [m.data for m in await everything(stream)] == [b"1"]
        assert (followed.rebuilt, followed.stored) == (1, [(1, 1)])
        await until(lambda: stream._committer.failure is None)
        await stream.checkpoint()
    async with workshop.stream() as stream:
        assert stream.consumers.recorded("C") == [b"state of C"], "the new ledger asks the listener, too"
    workshop.close()


async def test_a_callback_that_fails_keeps_neither_the_stream_nor_the_others_from_going_on(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop.stream() as stream:
        called: list[str] = []

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        for callbacks in (stream.events.message_callbacks, stream.events.change_callbacks):
            callbacks.add(broken)
        stream.events.message_callbacks.add(lambda: called.append("messages"))
        stream.events.change_callbacks.add(lambda: called.append("change"))
        stream.events.abandoned_callbacks.add(broken)
        stream.events.abandoned_callbacks.add(
            lambda batch_id, reason: called.append(f"{batch_id!r} {reason}")
        )
        await publish(stream, (b"a", b"1"))
        assert {"messages", "change"} <= set(called)
        stream.events.abandoned(b"id", Abandoned.TIMEOUT)
        assert called[-1] == "b'id' timeout"
        assert [m.data for m in await everything(stream)] == [b"1"]
    assert "a listener failed" in caplog.text


async def test_a_subject_is_wanted_by_the_listener_or_by_a_hold(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        assert not stream.events.wants(b"a")
        assert stream.events.consumer_states() is None
        Followed(stream, b"a")
        assert (stream.events.wants(b"a"), stream.events.wants(b"b")) == (True, False)
        stream.retention.holds.add(Hold(("b",)))
        assert stream.events.wants(b"b")
        assert stream.events.consumer_states() == {"C": [b"state of C"]}
