"""How messages are pulled, what of them may be acknowledged, and how losses and leftovers are noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.errors import BusError
from headwater.model.message import Message
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import ReplyTimeoutError
from headwater.replication.worker.pull_reader import PullReader

NO_MESSAGES = (b"_INBOX.x", b"", b"NATS/1.0 404 No Messages\r\n\r\n", b"")
TOO_LARGE = (b"_INBOX.x", b"", b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n\r\n", b"")
DELETED = (b"_INBOX.x", b"", b"NATS/1.0 409 Consumer Deleted\r\n\r\n", b"")


class Script:
    """A client and its inbox in one, whose answers and frames are written beforehand."""

    subject = b"_INBOX.x"

    def __init__(self, *reads: list[Any], delivered: tuple[int, int] = (0, 0), pending: int = 0) -> None:
        self.reads = list(reads)
        self.requests: list[str] = []
        self.pulls: list[dict[str, int]] = []
        self.level = "5"
        self.max_ack_pending = 0
        self._info = {
            "delivered": {"consumer_seq": delivered[0], "stream_seq": delivered[1]},
            "num_pending": pending,
        }

    def open(self) -> Script:
        return self

    def shut(self, inbox: Script) -> None: ...

    def read(self, timeout_s: float) -> list[Any]:
        if not self.reads:
            raise ReplyTimeoutError("silence")
        return self.reads.pop(0)

    def publish(self, subject: bytes, data: bytes = b"", reply: bytes = b"") -> None:
        assert subject == b"$JS.API.CONSUMER.MSG.NEXT.ORDERS.OURS"
        self.pulls.append(json.loads(data))

    def request(self, subject: str, body: Any = None) -> dict[str, Any]:
        self.requests.append(subject.removeprefix("$JS.API.CONSUMER."))
        if not subject.startswith("$JS.API.CONSUMER.INFO"):
            self._info["delivered"] = {"consumer_seq": 0, "stream_seq": 0}
        config = {"metadata": {"_nats.level": self.level}, "max_ack_pending": self.max_ack_pending}
        return {**self._info, "num_ack_pending": 1, "config": config}


def delivery(seq: int, number: int, pending: int, data: bytes = b"") -> tuple[bytes, bytes, bytes, bytes]:
    """Return a delivered message as bytes of the protocol."""
    return b"orders.a", b"$JS.ACK.ORDERS.OURS.1.%d.%d.%d.%d" % (seq, number, seq, pending), b"", data


def reader_of(script: Script, start_seq: int = 1, **fields: Any) -> PullReader:
    origin = NatsOrigin(api_prefix="$JS.API", stream="ORDERS", durable="OURS", **fields)
    return PullReader(script, origin, (), start_seq)  # type: ignore[arg-type]


def read(reader: PullReader) -> list[Message]:
    return [message for messages in reader.read() for message in messages]


def test_what_is_pending_is_pulled_and_may_be_acknowledged() -> None:
    script = Script([delivery(1, 1, 2), delivery(4, 2, 1)], [delivery(5, 3, 0)], pending=3)
    reader = reader_of(script)
    assert [message.seq for message in read(reader)] == [1, 4, 5]
    assert (list(reader.settled), reader.through, reader.ack_key) == ([1, 4, 5], 5, "$JS.ACK.ORDERS.OURS")
    assert script.requests == ["INFO.ORDERS.OURS"]
    assert [pull["batch"] for pull in script.pulls] == [3]


def test_nothing_pending_is_nothing_pulled() -> None:
    script = Script(pending=0)
    assert read(reader_of(script, 9)) == []
    assert script.pulls == []


def test_a_consumer_that_delivered_what_is_not_committed_is_set_back() -> None:
    script = Script([delivery(3, 1, 1), delivery(4, 2, 0)], delivered=(4, 4), pending=2)
    reader = reader_of(script, 4)
    # The third is in the target already: it came again only to be acknowledged.
    assert [message.seq for message in read(reader)] == [4]
    assert list(reader.settled) == [3, 4]
    assert script.requests == ["INFO.ORDERS.OURS", "RESET.ORDERS.OURS"]


def test_a_consumer_with_forgotten_acknowledgements_is_reset() -> None:
    script = Script([delivery(3, 1, 0)], delivered=(3, 3), pending=1)
    reader = reader_of(script, 4, rewinds=True)
    assert (read(reader), list(reader.settled), reader.through) == ([], [3], 3)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_the_consumer_at_an_older_server_is_re_created_and_interest_never_lapses(retention: str) -> None:
    script = Script([delivery(4, 1, 0)], delivered=(4, 4), pending=1)
    script.level = "1"
    assert [message.seq for message in read(reader_of(script, 4, retention=retention))] == [4]
    made = ["DELETE.ORDERS.OURS", "DURABLE.CREATE.ORDERS.OURS"]
    if retention == "interest":
        made = ["DELETE.ORDERS.OURS_", "DURABLE.CREATE.ORDERS.OURS_", *made, "DELETE.ORDERS.OURS_"]
    assert script.requests == ["INFO.ORDERS.OURS", *made]


def test_a_lost_delivery_is_noticed() -> None:
    script = Script([delivery(1, 1, 2), delivery(3, 3, 0)], pending=3)
    with pytest.raises(BusError, match="lost in transit"):
        read(reader_of(script))


@pytest.mark.parametrize("ending", [NO_MESSAGES, TOO_LARGE])
def test_a_batch_may_end_early(ending: Any) -> None:
    script = Script([delivery(1, 1, 5), ending], [NO_MESSAGES], pending=6)
    reader = reader_of(script)
    assert [message.seq for message in read(reader)] == [1]
    assert reader.through == 1


def test_a_message_larger_than_a_batch_is_asked_for_alone() -> None:
    script = Script([TOO_LARGE], [delivery(1, 1, 1, b"x")], [delivery(2, 2, 0)], pending=2)
    assert [message.seq for message in read(reader_of(script))] == [1, 2]
    assert [(pull["batch"], "max_bytes" in pull) for pull in script.pulls] == [
        (2, True),
        (1, False),
        (1, True),
    ]


def test_a_consumer_that_was_removed_is_an_error() -> None:
    with pytest.raises(BusError, match="Consumer Deleted"):
        read(reader_of(Script([DELETED], pending=2)))


def test_no_more_is_asked_for_than_may_be_unacknowledged() -> None:
    script = Script([delivery(1, 1, 9), delivery(2, 2, 8)], pending=10)
    script.max_ack_pending = 3
    assert len(read(reader_of(script))) == 2
    assert [pull["batch"] for pull in script.pulls] == [2]


def test_the_bounds_of_a_piece_of_work_hold() -> None:
    script = Script([delivery(1, 1, 9), delivery(2, 2, 8)], pending=10)
    assert len(read(reader_of(script, max_messages=2))) == 2
    script = Script([delivery(1, 1, 9, b"x" * 100)] * 1, pending=1)
    assert len(read(reader_of(script, max_bytes=50))) == 1


def test_a_pull_that_breaks_off_names_the_export_that_lets_one_answer_pass() -> None:
    with pytest.raises(BusError, match="response: stream"):
        read(reader_of(Script([delivery(1, 1, 2)], pending=3)))


def test_a_pull_without_an_answer_is_reported() -> None:
    nobody = (b"_INBOX.x", b"", b"NATS/1.0 503\r\n\r\n", b"")
    with pytest.raises(BusError, match="no responders on"):
        read(reader_of(Script([nobody], pending=3)))
