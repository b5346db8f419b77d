"""Jobs of replicators and ends of logs, of all engines at once, whatever they answer."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from console.engine_pages import answering, monitored, served_pages
from consoles import open_console
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.settings import Settings
from headwater.web.page_server import Query

JOB = {
    "account": "$G",
    "began_s": 1.5,
    "seconds": 2,
    "is_running": True,
    "tasks": 3,
    "done": 1,
    "failed": 0,
    "messages": 10,
    "messages_per_s": 5.0,
    "read_bytes": 0,
    "kinds": {"remote": 2, "files": 1},
    "copies": [{"stream": "<b>", "origin": "O", "tasks": 3}],
    "more_copies": 0,
    "error": "",
}


async def test_jobs_of_every_engine_are_shown_and_a_strange_answer_breaks_nothing() -> None:
    good = {"is_started_here": True, "is_running": True, "restarts": 1, "problem": "", "jobs": [JOB]}
    odd = {"jobs": [7, {"copies": [1, {}], "kinds": 5, "error": None}], "restarts": "x", "problem": None}
    async with (
        served_pages({"/replicator": answering(good)}) as one,
        served_pages({"/replicator": answering(odd)}) as other,
    ):
        sites = [monitored("east", one), monitored("odd", other), monitored("plain", 0), monitored("gone", 1)]
        async with open_console(sites) as console:
            found = json.loads((await console.get("/activity/jobs")).text)
    assert set(found) == {"east", "odd", "gone"}
    assert (found["east"]["is_running"], found["east"]["restarts"]) == (True, 1)
    [job] = found["east"]["jobs"]
    assert (job["copies"], job["kinds"]) == ([{"stream": "<b>", "origin": "O"}], ["files", "remote"])
    assert (job["messages_per_s"], job["is_running"]) == (5.0, True)
    assert found["odd"]["jobs"][0]["copies"] == [{"stream": "", "origin": ""}]
    assert found["odd"]["jobs"][0]["messages"] is None
    assert "cannot read" in found["gone"]["problem"]


async def test_the_end_of_the_log_is_shown_from_a_level_on(tmp_path: Path) -> None:
    asked: list[Query] = []
    monitor = EngineMonitor(Settings(), tmp_path)
    async with monitor.running(), served_pages(monitor.pages.by_path) as port:
        logging.getLogger("headwater.probe").warning(
            "<b>slow</b> nats://me:secret@host", extra={"token": "abc"}
        )
        odd = {"/log": answering({"lines": [3, {"message": None}]}, asked=asked)}
        async with (
            served_pages(odd) as other,
            open_console([monitored("east", port), monitored("odd", other)]) as console,
        ):
            found = json.loads((await console.get("/activity/log?level=warning")).text)
            assert (await console.get("/activity/log?level=loud")).status == 400
    lines = [each["message"] for each in found["east"]["lines"] if each["logger"] == "headwater.probe"]
    assert lines == ["<b>slow</b> nats://…@host token=…"]
    assert found["odd"]["lines"][0]["time_s"] is None
    assert asked[0]["level"] == "warning"
