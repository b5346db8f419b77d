"""Pages of a monitoring port: answered, missing, old, or not an answer at all."""

from __future__ import annotations

import pytest

from console.engine_pages import answering, monitored, served_pages
from headwater.console.monitored_pages import asked_page, moment
from headwater.console.sampler import SampledSite
from headwater.errors import Error


async def test_a_page_is_its_json_or_a_sentence() -> None:
    pages = {
        "/good": answering({"rows": [1], "more": 2}),
        "/said": answering({"error": "no such stream"}, 404),
        "/odd": answering({"rows": 7, "error": [8]}),
        "/list": answering([1]),
    }
    async with served_pages(pages) as port:
        site = SampledSite(monitored("east", port))
        assert await asked_page(site, "/good", "rows", "it") == {"rows": [1], "more": 2}
        for path, said in (
            ("/said", "no such stream"),
            ("/odd", "does not serve it: it is older"),
            ("/list", "older than the console"),
            ("/none", "older than the console"),
        ):
            with pytest.raises(Error, match=said):
                await asked_page(site, path, "rows", "it")
    for gone, said in (
        (monitored("plain", 0), "start the engine with --http-port"),
        (monitored("gone", 1), "cannot read"),
    ):
        with pytest.raises(Error, match=said):
            await asked_page(SampledSite(gone), "/good", "rows", "it")


def test_times_that_are_none_are_empty() -> None:
    assert moment(0) == "1970-01-01 00:00:00"
    strange: list[object] = [None, "x", 1e300, float("nan"), []]
    assert [moment(value) for value in strange] == [""] * 5
