"""The page of queries over HTTP; test_query_runner.py has what may be asked."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from consoles import OpenConsole, Visit, open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.watched_site import WatchedSite

NOWHERE = WatchedSite("nowhere", ConnectionSettings(server="nats://127.0.0.1:1"))


async def ask(console: OpenConsole, sql: str, site: str = "same-origin") -> Visit:
    kind = "application/x-www-form-urlencoded"
    return await console.get("/query", "POST", f"sql={quote(sql)}", Content_Type=kind, Sec_Fetch_Site=site)


async def test_results_are_shown_as_text_and_refusals_with_their_reason(tmp_path: Path) -> None:
    async with open_console([NOWHERE], store=str(tmp_path)) as console:
        assert 'id="query"' in (await console.get("/query")).text
        assert "&#34;A&#34;&#34;B&#34;" in (await console.get("/query?stream=A%22B")).text
        sql = "SELECT range AS n, '<script>x</script>' AS t, NULL AS nothing FROM range(3)"
        answer = await ask(console, sql)
        assert answer.status == 200
        assert "3 rows" in answer.text
        assert "&lt;script&gt;" in answer.text
        assert "<script>x" not in answer.text
        assert "NULL" in answer.text
        assert 'id="plot"' in answer.text
        refused = await ask(console, "FROM read_text('/etc/hostname')")
        assert (refused.status, "read_text is not allowed" in refused.text) == (422, True)
        assert (await ask(console, "SELECT 1", site="cross-site")).status == 403


async def test_without_a_store_the_page_says_why_not() -> None:
    async with open_console([NOWHERE]) as console:
        assert "--store PATH" in (await console.get("/query")).text
        assert (await ask(console, "SELECT 1")).status == 422
