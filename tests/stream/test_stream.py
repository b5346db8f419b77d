"""One stream, whole: what it tells its listener, how it is changed, purged, loaded and closed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from headwater.errors import ApiError
from headwater.model.adopted import Adopted
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.model.stream import Retention
from headwater.stream import committer
from headwater.stream.head import HeadEntry
from headwater.stream.ledger import Ledger
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream
from simulation.disks import BreakableDisk, Fault
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish, seqs_of
from table.samples import columns_of
from waits import until


class Followed:
    """A listener that writes down what it is told, and wants the subjects it is given."""

    def __init__(self, stream: Stream, *wanted: bytes) -> None:
        self.stream = stream
        self.wanted = set(wanted)
        self.needed: set[int] = set()
        self.stored: list[tuple[int, int]] = []
        self.removed: list[int] = []
        self.rebuilt = 0
        stream.listen(self)

    def on_stored(self, entries: Sequence[HeadEntry]) -> None:
        for entry in entries:
            assert entry.last_seq <= self.stream.durable_seq
            self.stored.append((entry.first_seq, entry.last_seq))

    def on_adopted(self, adopted: Adopted) -> None:
        self.stored.append((adopted.first_seq, adopted.last_seq))

    def on_removed(self, removal: Removal) -> None:
        self.removed += list(removal.seqs)

    def on_rebuilt(self) -> None:
        self.rebuilt += 1

    def wants(self, subject: bytes) -> bool:
        return subject in self.wanted

    def released(self, run: Run, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        return np.array([row for row in rows.tolist() if int(run.seqs[row]) not in self.needed], np.intp)

    def is_done_with(self, first_seq: int, last_seq: int) -> bool:
        return False

    def dump(self) -> dict[str, list[bytes]]:
        return {"C": [b"state of C"]}


async def test_a_listener_hears_of_messages_once_they_are_durable_and_of_removals_at_once(
    workshop: Workshop,
) -> None:
    async with workshop.stream(max_msgs=3) as stream:
        followed = Followed(stream)
        stream.offer([(b"a", b"", b"", b"")] * 2)
        assert followed.stored == []
        await stream.settled()
        assert followed.stored == [(1, 2)]
        await publish(stream, (b"a", b""), (b"a", b""))
        assert (followed.stored, followed.removed) == ([(1, 2), (3, 4)], [1])
        await stream.remove(3)
        assert followed.removed == [1, 3]


async def test_after_a_refused_write_the_listener_is_told_that_all_was_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    async with workshop.stream() as stream:
        followed = Followed(stream)
        await publish(stream, (b"a", b"1"))
        disk.break_always(Fault.REFUSED)
        stream.offer([(b"a", b"r", b"", b"2")])
        with pytest.raises(ApiError, match="cannot write"):
            await stream.settled()
        disk.heal()
        assert [m.data for m in await everything(stream)] == [b"1"]
        assert (followed.rebuilt, followed.stored) == (1, [(1, 1)])
        await until(lambda: stream._committer.failure is None)
        await stream.checkpoint()
    async with workshop.stream() as stream:
        assert stream.recorded("C") == [b"state of C"], "the new ledger asks the listener, too"
    workshop.close()


async def test_what_a_consumer_did_and_what_it_let_go_become_durable_before_it_is_answered(
    workshop: Workshop,
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"%d" % n) for n in range(5)])
        workshop.answers.frames.clear()
        removal, unread = stream.removal_of([2, 4, 9])
        assert unread == []
        stream.record({"C": b"acked 2, 4"}, removal=removal, then=[b"PUB ok 0\r\n\r\n"])
        assert workshop.answers.frames == b""
        await stream.settled()
        assert workshop.answers.frames == b"PUB ok 0\r\n\r\n"
        assert await seqs_of(stream) == [1, 3, 5]
    async with workshop.stream() as stream:
        assert stream.recorded("C") == [b"acked 2, 4"]
        assert stream.recorded("D") == []
        assert await seqs_of(stream) == [1, 3, 5]


async def test_by_interest_only_wanted_messages_are_kept_but_all_are_acknowledged(workshop: Workshop) -> None:
    async with workshop.stream(retention=Retention.INTEREST) as stream:
        Followed(stream, b"wanted")
        await publish(stream, (b"wanted", b"1"), (b"other", b"2"), (b"wanted", b"3"))
        assert [a["seq"] for a in workshop.answers.take().values()] == [1, 2, 3]
        assert await seqs_of(stream) == [1, 3]


async def test_a_change_to_retention_by_interest_drops_what_nobody_needs(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        followed = Followed(stream)
        followed.needed = {2, 4}
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.folder.fold()
        await publish(stream, *[(b"a", b"")] * 3)
        await stream.reconfigure(config_of(retention=Retention.INTEREST))
        assert await seqs_of(stream) == [2, 4]


async def test_a_config_that_cannot_be_made_durable_is_not_taken_up(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 4)
        disk.break_always(Fault.REFUSED)
        with pytest.raises(ApiError):
            await stream.reconfigure(config_of(max_msgs=2))
        disk.heal()
        assert stream.config == config_of()
        assert await seqs_of(stream) == [1, 2, 3, 4]
    workshop.close()


async def test_the_state_follows_what_is_removed_also_after_a_fold(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        times = []
        for n in range(4):
            workshop.clock.advance(SECOND)
            times.append(workshop.clock.now_ns())
            await publish(stream, (b"a.%d" % n, b"x"))
        await stream.folder.fold()
        await stream.remove(1)
        await stream.remove(3)
        state = await stream.state()
        assert (state.messages, state.bytes, state.num_subjects) == (2, 2 * 34, 2)
        assert (state.first_seq, state.first_ts) == (2, times[1])
        assert (state.last_seq, state.last_ts) == (4, times[3])
        assert (state.num_deleted, stream.deleted()) == (1, [3])
        assert (stream.subject_at(2), stream.subject_at(3)) == (b"a.1", None)


async def test_removing_what_is_not_there_changes_nothing(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        assert [await stream.remove(seq) for seq in (0, 2, 1, 1)] == [False, False, True, False]
        assert (await stream.state()).first_seq == 2


async def test_a_purge_up_to_a_sequence_beyond_the_end_moves_the_stream_there(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        assert await stream.purge(seq=10) == 2
        state = await stream.state()
        assert (state.messages, state.first_seq, state.last_seq) == (0, 10, 9)
        await publish(stream, (b"a", b"3"))
        assert await seqs_of(stream) == [10]
        assert await stream.purge(filter="b") == 0


async def test_loaded_messages_keep_their_sequences_times_and_gaps(workshop: Workshop) -> None:
    messages = [
        Message(5, 50, b"a", b"", b"five"),
        Message(8, 80, b"b", headers(Nats_Msg_Id="eight"), b""),
    ]
    async with workshop.stream() as stream:
        await stream.load(columns_of(messages), last_seq=10)
        assert await everything(stream) == messages
        state = await stream.state()
        assert (state.first_seq, state.last_seq, stream.deleted()) == (5, 10, [6, 7, 9, 10])
    async with workshop.stream() as stream:
        assert await everything(stream) == messages
        await publish(stream, (b"c", b""))
        assert await seqs_of(stream) == [5, 8, 11]


async def test_only_what_is_durable_is_answered(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        stream.offer([(b"a", b"", b"", b"1")])
        assert (stream.durable_seq, stream.backlog_bytes > 0) == (0, True)
        message = await stream.message(1)
        assert message is not None
        assert (stream.durable_seq, stream.backlog_bytes) == (1, 0)
        await stream.caught_up()


async def test_a_closed_stream_refuses_what_is_offered_and_keeps_what_was(workshop: Workshop) -> None:
    stream = await workshop.open(config_of())
    stream.offer([(b"a", b"r1", b"", b"1")])
    await stream.close()
    stream.offer([(b"a", b"r2", b"", b"2"), (b"a", b"", b"", b"3")])
    answers = workshop.answers.take()
    assert answers[b"r1"]["seq"] == 1
    assert answers[b"r2"]["error"]["err_code"] == 10077
    async with workshop.stream() as again:
        assert [m.data for m in await everything(again)] == [b"1"]


async def test_limits_declared_while_it_was_closed_are_held_when_it_opens(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"ab"[n % 2 :][:1], b"") for n in range(8)])
    async with workshop.stream(max_msgs_per_subject=3, max_msgs=5) as stream:
        assert await seqs_of(stream) == [4, 5, 6, 7, 8]


async def test_a_message_that_the_stream_fails_on_costs_it_a_replay_and_no_stored_message(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong in the middle of a change, what is durable is served and the next one is taken."""
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"kept"))
        workshop.answers.take()
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "note_headers", _overflow)
            stream.offer(
                [(b"a", b"r1", b"", b"x"), (b"a", b"r2", headers(A="b"), b"y"), (b"b", b"r3", b"", b"z")]
            )
        with suppress(ApiError):
            await stream.settled()
        assert (await stream.state()).messages == 1
        answers = workshop.answers.take()
        assert answers.keys() == {b"r1", b"r2", b"r3"}
        assert all("OverflowError" in answer["error"]["description"] for answer in answers.values())
        await publish(stream, (b"a", b"next"))
        assert [message.data for message in await everything(stream)] == [b"kept", b"next"]
        assert workshop.answers.take()[b"r0"]["seq"] == 2


def _overflow(*_: object) -> None:
    raise OverflowError("Python int too large")
