"""What a hidden push consumer is asked for, and how its losses are noticed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.errors import BusError
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.bulk_deliveries import BulkDeliveries
from headwater.replication.worker.client import ReplyTimeoutError
from headwater.replication.worker.push_reader import PushReader

ORIGIN = NatsOrigin(servers=("nats://127.0.0.1:1",), api_prefix="$JS.API", stream="ORDERS")
HEARTBEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\n%b\r\n"
FLOW_CONTROL = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class Script:
    """A client and its inbox in one, whose answers and frames are written beforehand."""

    subject = b"_INBOX.x"
    sid = b"1"

    def __init__(self, pending: int, *reads: list[Any]) -> None:
        self.reads = list(reads)
        self.requests: list[tuple[str, Any]] = []
        self.published: list[bytes] = []
        self.shut_inboxes = 0
        self.renewed = 0
        self.items: list[Any] = []
        self.prefixes: list[str] = []
        self._pending = pending

    def open(self, prefix: str = "") -> Script:
        self.prefixes.append(prefix)
        return self

    def shut(self, inbox: Script) -> None:
        self.shut_inboxes += 1

    def renew(self) -> None:
        self.renewed += 1

    def read_bulk(self, bulk: BulkDeliveries, timeout_s: float) -> list[Any]:
        if not self.reads:
            raise ReplyTimeoutError("silence")
        return self.reads.pop(0)

    def publish(self, subject: bytes, data: bytes = b"", reply: bytes = b"") -> None:
        self.published.append(subject)

    def request(self, subject: str, body: Any = None) -> dict[str, Any]:
        self.requests.append((subject, body))
        return {"name": "hidden", "num_pending": self._pending}


def delivery(seq: int, number: int, pending: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Return a delivered message as bytes of the protocol."""
    reply = b"$JS.ACK.ORDERS.hidden.1.%d.%d.%d.%d" % (seq, number, 1000 + seq, pending)
    return b"orders.a", reply, b"", b"%d" % seq


def control(headers: bytes, reply: bytes = b"") -> tuple[bytes, bytes, bytes, bytes]:
    """Return a message of the consumer itself."""
    return Script.subject, reply, headers, b""


def read(script: Script, *filters: str, origin: NatsOrigin = ORIGIN) -> list[int]:
    """Return the sequences that a reader brings."""
    reader = PushReader(script, origin, filters)  # type: ignore[arg-type]
    try:
        return [int(seq) for rows in reader.read(5, 100) for seq in rows.seqs]
    finally:
        reader.close()


def test_reading_ends_when_nothing_is_pending_and_takes_the_consumer_away() -> None:
    script = Script(3, [delivery(5, 1, 2), delivery(8, 2, 1)], [delivery(9, 3, 0)])
    assert read(script) == [5, 8, 9]
    assert script.requests[-1] == ("$JS.API.CONSUMER.DELETE.ORDERS.hidden", None)
    assert (script.renewed, script.shut_inboxes) == (0, 1)


def test_a_reader_that_ends_does_not_wait_for_messages_in_flight() -> None:
    script = Script(3, [delivery(5, 1, 2)], [delivery(8, 2, 1)])
    reader = PushReader(script, ORIGIN, ())  # type: ignore[arg-type]
    next(reader.read(5, 100))
    reader.close()
    assert (script.renewed, script.shut_inboxes) == (1, 1)
    assert script.requests[-1] == ("$JS.API.CONSUMER.DELETE.ORDERS.hidden", None)


def test_an_origin_with_nothing_pending_is_not_waited_for() -> None:
    assert read(Script(0)) == []


def test_the_consumer_is_hidden_unacknowledged_and_short_lived() -> None:
    script = Script(0)
    read(script)
    subject, body = script.requests[0]
    config = body["config"]
    assert subject == "$JS.API.CONSUMER.CREATE.ORDERS"
    assert (config["direct"], config["ack_policy"], config["opt_start_seq"]) == (True, "none", 5)
    assert not {"durable_name", "filter_subject", "filter_subjects"} & set(config)


def test_filters_are_sent_in_the_form_for_one_or_for_many() -> None:
    one, many = Script(0), Script(0)
    read(one, "a.*")
    read(many, "a.*", "b")
    assert one.requests[0][1]["config"]["filter_subject"] == "a.*"
    assert many.requests[0][1]["config"]["filter_subjects"] == ["a.*", "b"]


def test_flow_control_and_stalls_are_answered() -> None:
    stalled = HEARTBEAT % (1, b"Nats-Consumer-Stalled: $JS.FC.2\r\n")
    script = Script(
        2, [delivery(5, 1, 1), control(FLOW_CONTROL, b"$JS.FC.1"), control(stalled)], [delivery(6, 2, 0)]
    )
    assert read(script) == [5, 6]
    assert script.published == [b"$JS.FC.1", b"$JS.FC.2"]


def test_a_delivery_that_is_missing_is_noticed() -> None:
    with pytest.raises(BusError, match="was lost"):
        read(Script(3, [delivery(5, 1, 2), delivery(7, 3, 0)]))


def test_a_heartbeat_that_counts_more_deliveries_than_came_is_noticed() -> None:
    with pytest.raises(BusError, match="were lost"):
        read(Script(3, [delivery(5, 1, 2), control(HEARTBEAT % (2, b""))]))


def test_a_consumer_that_is_ended_by_the_origin_is_an_error() -> None:
    with pytest.raises(BusError, match="ended"):
        read(Script(3, [control(b"NATS/1.0 409 Consumer Deleted\r\n\r\n")]))


def test_another_account_delivers_below_the_prefix_that_it_exports() -> None:
    script = Script(1, [delivery(5, 1, 0)])
    assert read(script, origin=msgspec.structs.replace(ORIGIN, deliver="deliver.acme")) == [5]
    assert script.prefixes == ["deliver.acme"]


def test_a_consumer_that_never_says_a_word_is_kept_from_us_by_a_missing_export() -> None:
    with pytest.raises(BusError, match=r'exports: \[\{stream: "deliver\.acme\.>"\}\]'):
        read(Script(1), origin=msgspec.structs.replace(ORIGIN, deliver="deliver.acme"))


def test_one_that_falls_silent_is_only_that() -> None:
    with pytest.raises(ReplyTimeoutError, match="silence"):
        read(Script(2, [delivery(5, 1, 1)]))


def test_unanswered_flow_control_is_a_missing_export() -> None:
    asking = control(FLOW_CONTROL, b"$JS.FC.ORDERS.hidden.1")
    script = Script(2, [delivery(5, 1, 1), asking, asking], [asking])
    script.items = [(b"_INBOX.y", b"", b"NATS/1.0 503\r\n\r\n", b"")] * 2
    with pytest.raises(BusError, match=r'exports: \[\{service: "\$JS\.FC\.ORDERS\.>"\}\]'):
        read(script)
