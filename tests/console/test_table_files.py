"""Files of tables, as an engine lists them, a page at a time."""

from __future__ import annotations

import json
from typing import Any

from console.engine_pages import answering, monitored, served_pages
from consoles import open_console
from headwater.console.table_files import PER_PAGE
from headwater.web.page_server import Query

FILE = {
    "path": "base=1/<b>.parquet",
    "kind": "small",
    "first_seq": 1,
    "last_seq": 9,
    "messages": 8,
    "bytes": 100,
}


async def test_a_page_of_files_is_asked_of_the_engine_and_shown_as_text() -> None:
    asked: list[Query] = []
    listed: list[Any] = [FILE, 7, {"path": None, "bytes": "many", "messages": True}, *[FILE] * 100]
    body = {"files": 103, "bytes": 5000, "through": 9, "version": 4, "listed": listed}
    async with served_pages({"/table": answering(body, asked=asked)}) as port:
        async with open_console([monitored("east", port), monitored("plain", 0)]) as console:
            found = json.loads((await console.get("/files/east/A%3F%26b?offset=50")).text)
            assert (found["files"], found["through"], found["offset"], found["unfolded"]) == (103, 9, 50, 0)
            assert len(found["listed"]) == PER_PAGE - 1
            assert found["listed"][0] == {**FILE, "removed": 0, "first_ts": 0, "last_ts": 0}
            assert (found["listed"][1]["bytes"], found["listed"][1]["messages"]) == (0, 0)
            assert asked[0]["stream"] == "A?&b"
            assert (asked[0]["offset"], asked[0]["limit"]) == ("50", str(PER_PAGE))
            for offset in ("-1", "x", "9" * 30, "%C2%B2"):
                assert (await console.get(f"/files/east/A?offset={offset}")).status == 400
            plain = await console.get("/files/plain/A")
            assert (plain.status, "--http-port" in json.loads(plain.text)["error"]) == (404, True)
            assert (await console.get("/files/none/A")).status == 404
