"""What happens to streams is announced as nats-server announces it."""

from __future__ import annotations

import json
from typing import Any

from doors import Asker, normal

S = {"name": "S", "subjects": ["s.>"]}


async def heard(asker: Asker, count: int) -> list[Any]:
    """Return the advisories of a stream's life, by subject."""
    events = asker.listen("$JS.EVENT.ADVISORY.>")
    await asker.connection.flush()
    await asker.ask("STREAM.CREATE.S", S)
    await asker.ask("STREAM.CREATE.S", S)
    await asker.ask("STREAM.UPDATE.S", {**S, "description": "new"})
    await asker.ask("STREAM.MSG.GET.S", {"seq": 1})
    await asker.ask("STREAM.DELETE.S")
    await asker.ask("STREAM.DELETE.S")
    frames = [await events.next() for _ in range(count)]
    return [(frame[0].decode(), json.loads(frame[3])) for frame in frames]


def comparable(events: list[Any]) -> list[Any]:
    shown = []
    for subject, event in events:
        assert len(event.pop("id")) == 22
        if "client" in event:
            assert event.pop("client")["acc"] == "$G"
            event["response"] = normal(json.loads(event["response"]))
        shown.append((subject, normal(event)))
    return shown


async def test_the_life_of_a_stream_is_announced_as_by_nats_server(twins: Any) -> None:
    theirs = comparable(await heard(twins.theirs, 9))
    ours = comparable(await heard(twins.ours, 9))
    assert sorted(ours, key=str) == sorted(theirs, key=str)


async def test_a_request_through_a_service_import_shows_who_asked(ask: Asker) -> None:
    events = ask.listen("$JS.EVENT.ADVISORY.API")
    await ask.ask("INFO", None, b'NATS/1.0\r\nNats-Request-Info: {"acc":"A","user":"u"}\r\n\r\n')
    assert json.loads((await events.next())[3])["client"] == {"acc": "A", "user": "u"}
    await ask.ask("INFO", None, b"NATS/1.0\r\nNats-Request-Info: {torn\r\n\r\n")
    assert json.loads((await events.next())[3])["client"] == {"acc": "$G"}


async def test_an_advisory_too_large_to_be_sent_is_left_out(ask: Asker) -> None:
    events = ask.listen("$JS.EVENT.ADVISORY.API")
    answer = await ask.ask("STREAM.NAMES", b"x" + b'"' * 700_000)
    assert answer["total"] == 0
    await ask.ask("INFO")
    assert json.loads((await events.next())[3])["subject"] == "$JS.API.INFO"
