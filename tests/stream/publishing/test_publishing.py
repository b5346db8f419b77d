"""Published messages are stored or refused, also while the stream hangs or fails on one of them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from headwater.errors import ApiError, Error
from headwater.model.message import Message
from headwater.stream.ledger import Ledger
from stream.streams import Workshop, everything, headers, publish, seqs_of
from table.samples import columns_of


async def test_loaded_messages_keep_their_sequences_times_and_gaps(workshop: Workshop) -> None:
    messages = [
        Message(5, 50, b"a", b"", b"five"),
        Message(8, 80, b"b", headers(Nats_Msg_Id="eight"), b""),
    ]
    async with workshop.stream() as stream:
        await stream.publishing.load(columns_of(messages), last_seq=10)
        assert await everything(stream) == messages
        state = await stream.reading.state()
        assert (state.first_seq, state.last_seq, stream.reading.deleted()) == (5, 10, [6, 7, 9, 10])
    async with workshop.stream() as stream:
        assert await everything(stream) == messages
        await publish(stream, (b"c", b""))
        assert await seqs_of(stream) == [5, 8, 11]


async def test_a_message_that_the_stream_fails_on_costs_it_a_replay_and_no_stored_message(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any error during a change, durable messages are served and the next publish is stored."""
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"kept"))
        workshop.answers.take()
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "note_headers", _overflow)
            stream.publishing.offer(
                [(b"a", b"r1", b"", b"x"), (b"a", b"r2", headers(A="b"), b"y"), (b"b", b"r3", b"", b"z")]
            )
        with suppress(ApiError):
            await stream.publishing.settled()
        assert (await stream.reading.state()).messages == 1
        answers = workshop.answers.take()
        assert answers.keys() == {b"r1", b"r2", b"r3"}
        assert all("OverflowError" in answer["error"]["description"] for answer in answers.values())
        await publish(stream, (b"a", b"next"))
        assert [message.data for message in await everything(stream)] == [b"kept", b"next"]
        assert workshop.answers.take()[b"r0"]["seq"] == 2


def _overflow(*_: object) -> None:
    raise OverflowError("Python int too large")


async def test_a_congested_stream_refuses_messages_and_promises(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        stream.publishing.congestion = Error("the disk hangs")
        stream.publishing.offer([(b"a", b"r1", b"", b"1"), (b"a", b"", b"", b"2")])
        answers = workshop.answers.take()
        assert answers.keys() == {b"r1"}
        assert "the disk hangs" in answers[b"r1"]["error"]["description"]
        with pytest.raises(ApiError, match="the disk hangs"):
            await stream.publishing.promise()
        assert (stream.publishing.is_storing, stream.failure) == (True, "the disk hangs")
        stream.publishing.congestion = None
        stream.publishing.offer([(b"a", b"r3", b"", b"3")])
        await stream.publishing.promise()
        assert await seqs_of(stream) == [1]
