"""Tests of monitor.history_stream."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from doors import opened_door
from headwater.clock import SystemClock
from headwater.meters import Meters
from headwater.monitor.history_sampler import WRITTEN_EVERY, HistorySampler
from headwater.monitor.history_stream import HistoryStream
from headwater.monitor.served_account import ServedAccount
from headwater.monitor.serving_state import ServingState
from waits import until


async def test_samples_become_messages_of_a_stream_of_their_own(tmp_path: Path) -> None:
    status = ServingState()
    sampler = HistorySampler(status, Meters(), tmp_path, HistoryStream("HISTORY"))
    await sampler.sample()  # no account is served yet
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]})
        status.serves(
            ServedAccount("$G", "", "my.host", door.domain, door.consumers, door.upstreams, SystemClock())
        )
        for _ in range(WRITTEN_EVERY):
            await sampler.sample()
        stream = door.domain.stream("HISTORY")
        await until(lambda: stream.reading.last_seq >= 2)
        found = {}
        for seq in (1, 2):
            answer = await door.asker.ask("STREAM.MSG.GET.HISTORY", {"seq": seq})
            found[answer["message"]["subject"]] = json.loads(b64decode(answer["message"]["data"]))
        for _ in range(WRITTEN_EVERY):
            await sampler.sample()
        await until(lambda: stream.reading.last_seq >= 3)
    engine = found["headwater.history.my_host.engine"]
    assert engine["streams"] == 1
    assert engine["time"] > 0
    assert found["headwater.history.my_host.stream._G.A"]["stream"] == "$G/A"
    assert stream.reading.last_seq == 3, "A has not changed, and the stream does not describe itself"


async def test_a_stream_with_other_subjects_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status = ServingState()
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a"]})
        status.serves(
            ServedAccount("$G", "", "host", door.domain, door.consumers, door.upstreams, SystemClock())
        )
        await HistorySampler(status, Meters(), tmp_path, HistoryStream("A")).sample()
        assert door.domain.stream("A").reading.last_seq == 0
    assert "cannot write the history to stream A: its subjects do not include" in caplog.text
