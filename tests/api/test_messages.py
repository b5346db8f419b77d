"""Single messages are read and removed with the answers of nats-server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from doors import Asker, Body, Door, opened_door

S = {"name": "S", "subjects": ["s.>"]}
HEADERS = b"NATS/1.0\r\nK: V\r\nK: W\r\n\r\n"


async def fill(twins: Any, **config: Any) -> None:
    await twins.ask("STREAM.CREATE.S", {**S, **config})
    for number in range(3):
        await twins.publish(f"s.{number}", b"d%d" % number)
    await twins.publish("s.h", b"dh", HEADERS)
    await twins.publish("s.e")
    await twins.publish("s.1", b"second")


@pytest.mark.parametrize(
    "body",
    [
        None,
        "{}",
        {"seq": 1},
        {"seq": 4},
        {"seq": 5},
        {"seq": 4, "no_hdr": True},
        {"seq": 99},
        {"seq": 0},
        {"last_by_subj": "s.1"},
        {"last_by_subj": "s.*"},
        {"last_by_subj": ">"},
        {"last_by_subj": "zz"},
        {"next_by_subj": "s.*"},
        {"next_by_subj": "s.1", "seq": 3},
        {"next_by_subj": "s.0", "seq": 2},
        {"next_by_subj": "s.1", "seq": 99},
        {"seq": 1, "last_by_subj": "s.1"},
        {"last_by_subj": "s.1", "next_by_subj": "s.1"},
        {"start_time": "2020-01-01T00:00:00Z"},
        {"start_time": "2120-01-01T00:00:00Z"},
        {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "s.2"},
        {"start_time": "2020-01-01T00:00:00Z", "seq": 1},
        {"seq": 1, "batch": 2},
        {"seq": 1, "max_bytes": 2},
        {"seq": -1},
        {"seq": "1"},
        {"foo": 1},
        "xx",
        '{"seq":1} {"seq":2}',
        '{"seq":1.0}',
        '{"SEQ":1}',
        "[]",
        '{"seq":18446744073709551615}',
        '{"seq":18446744073709551616}',
    ],
)
async def test_messages_are_read_as_from_nats_server(twins: Any, body: Body) -> None:
    await fill(twins)
    await twins.ask("STREAM.MSG.GET.S", body)


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_messages_are_removed_as_by_nats_server(twins: Any, storage: str) -> None:
    await fill(twins, storage=storage)
    for body in (
        None,
        "{}",
        "xx",
        {"seq": 99},
        {"seq": 2},
        {"seq": 2},
        {"seq": 3, "no_erase": True},
        {"seq": 0},
    ):
        await twins.ask("STREAM.MSG.DELETE.S", body)
    await twins.ask("STREAM.MSG.GET.S", {"seq": 2})
    await twins.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.2"})
    await twins.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    await twins.ask("STREAM.MSG.DELETE.S", {"seq": 6})
    await twins.ask("STREAM.INFO.S", {"deleted_details": True})


async def test_an_empty_stream_has_no_first_message(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask("STREAM.MSG.GET.S", {"start_time": "2020-01-01T00:00:00Z"})
    await twins.ask("STREAM.MSG.GET.S", {"next_by_subj": ">"})


async def test_a_message_too_large_for_the_envelope_is_refused_and_the_connection_stays(
    door: Door, ask: Asker
) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await ask.publish("s.big", b"x" * 1_000_000)
    answer = await ask.ask("STREAM.MSG.GET.S", {"seq": 1})
    assert answer["error"]["code"] == 500
    assert "bytes, more than 1048576" in answer["error"]["description"]
    assert door.connection.connected
    assert (await ask.ask("STREAM.INFO.S"))["state"]["messages"] == 1


async def test_messages_up_to_a_small_limit_of_the_server_are_answered_or_refused_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine uses an external server. A message in base64 is larger than that server's limit."""
    limit = 4096
    async with opened_door(tmp_path, config=f"max_payload: {limit}") as door:
        await door.asker.ask("STREAM.CREATE.S", S)
        headers = b"NATS/1.0\r\nX: " + b"h" * 500 + b"\r\n\r\n"
        sizes = [
            (size, head) for head in (b"", headers) for size in (1000, 2900, 3000, 3050, limit - len(head))
        ]
        for size, head in sizes:
            await door.asker.publish("s.big", b"x" * size, head)
        answered = []
        for seq, (size, _) in enumerate(sizes, 1):
            for asked in ({"seq": seq}, {"next_by_subj": "s.big", "seq": seq}):
                answer = await door.asker.ask("STREAM.MSG.GET.S", asked)
                if "error" in answer:
                    assert f"bytes, more than {limit}: read the message" in answer["error"]["description"]
                else:
                    answered.append(seq)
                    assert len(base64.b64decode(answer["message"]["data"])) == size
        assert answered == [1, 1, 2, 2, 6, 6]
        assert (await door.asker.ask("STREAM.INFO.S"))["state"]["messages"] == len(sizes)
        assert "lost the connection" not in caplog.text


async def test_a_consumer_whose_answer_is_too_large_with_its_headers_is_refused_and_the_connection_stays(
    tmp_path: Path,
) -> None:
    limit = 4096
    async with opened_door(tmp_path, config=f"max_payload: {limit}") as door:
        await door.asker.ask("STREAM.CREATE.S", S)
        config = {"name": "C", "deliver_subject": "d", "direct": True, "ack_policy": "none"}
        request = {"stream_name": "S", "config": {**config, "metadata": {"m": "x"}}}
        short = await door.asker.ask("CONSUMER.CREATE.S.C", request)
        assert "error" not in short, short
        room = limit - len(json.dumps(short, separators=(",", ":")))
        for more in range(room - 40, room + 40):
            name = f"C{more}"
            changed = {**config, "name": name, "metadata": {"m": "x" * more}}
            answer = await door.asker.ask(
                f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": changed}
            )
            assert "error" not in answer or f"more than {limit}" in answer["error"]["description"], answer
        assert "error" in answer
        assert door.connection.connected
