"""Batches of direct gets: messages as they are stored, and answers that are no batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from nats.aio.msg import Msg

from console.streams import KINDS, filled, raw_api
from headwater.client.jetstream_api import JetStreamApi
from headwater.console.direct_batches import DirectBatches, DirectUnavailableError
from waits import until

REPEATED = b"NATS/1.0\r\nkind:  one \r\nkind: two\r\nNats-Stream: FAKE\r\nNats-Sequence: 9\r\n\r\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_have_their_headers_as_they_were_sent(kind: str, tmp_path: Path) -> None:
    async with filled(kind, tmp_path, allow_direct=True) as plain, raw_api(plain) as api:
        sent = b"HPUB orders.x %d %d\r\n%bhello\r\n" % (len(REPEATED), len(REPEATED) + 5, REPEATED)
        await api.nats._send_publish("orders.plain", "", b"bare", 4, {})
        await api.nats._send_command(sent)
        await api.nats.flush()

        async def is_stored() -> bool:
            return bool((await api.stream_info("ORDERS"))["state"]["last_seq"] == 102)

        await until(is_stored)
        batches = DirectBatches(api, "ORDERS")
        assert await batches.count_from(1, "orders.us") == (10, 10)
        assert await batches.count_from(91, "orders.us") == (100, 1)
        assert await batches.count_from(101, "orders.us") == (0, 0)
        found = await batches.read(101, 10)
        assert [(each.seq, each.subject, each.data) for each in found.messages] == [
            (101, b"orders.plain", b"bare"),
            (102, b"orders.x", b"hello"),
        ]
        assert [each.headers for each in found.messages] == [b"", REPEATED]
        assert all(each.ts > 0 for each in found.messages)
        assert found.pending == 0
        some = await batches.read(1, 3, "orders.us")
        assert ([each.seq for each in some.messages], some.pending) == ([10, 20, 30], 7)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [(b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s\r\nNats-Sequence: 1\r\n\r\n", b"no count")],
            "without batches",
        ),
        ([(b"NATS/1.0\r\nother: x\r\n\r\n", b"")], "without batches"),
        ([(b"", b"no headers")], "without batches"),
        ([(b"NATS/1.0 413 Too Many Results\r\n\r\n", b"")], "Too Many Results"),
        ([], "timeout"),
    ],
)
async def test_answers_that_are_no_batch_are_refused(
    answers: list[tuple[bytes, bytes]], said: str, tmp_path: Path
) -> None:
    async with filled("nats-server", tmp_path) as plain, raw_api(plain) as api:

        async def reply(message: Msg) -> None:
            for block, data in answers:
                kind = b"HPUB" if block else b"PUB"
                sizes = b"%d %d" % (len(block), len(block) + len(data)) if block else b"%d" % len(data)
                command = b"%b %b %b\r\n%b%b\r\n" % (kind, message.reply.encode(), sizes, block, data)
                await plain.nats._send_command(command)
            await plain.nats.flush()

        await plain.nats.subscribe("fake.DIRECT.GET.S", cb=reply)
        other = JetStreamApi(api.nats, "fake", 60 if answers else 0.5)

        async def is_refused() -> bool:
            with pytest.raises(DirectUnavailableError) as caught:
                await DirectBatches(other, "S").read(1, 5)
            return said in str(
                caught.value
            )  # before the server knows the subscription, there is no responder

        await until(is_refused)
