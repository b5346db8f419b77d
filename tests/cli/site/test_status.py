"""The status as tables, with parts that are down or silent marked."""

from __future__ import annotations

import io

from headwater.cli.render import console, show
from headwater.cli.site.status import sheets
from headwater.site.journal_servers import JournalServer, JournalStatus
from headwater.site.links import AccountLink
from headwater.site.status import (
    DomainStatus,
    EngineStatus,
    ServerStatus,
    SitesStatus,
    SiteStatus,
    StreamStatus,
    UpstreamStatus,
)

NOW = 1_700_000_000.0


def text_of(status: SitesStatus) -> str:
    """Return the tables as text."""
    out = io.StringIO()
    show(*sheets(status, NOW), to=console(out))
    return out.getvalue()


def test_what_is_silent_is_said_with_since_when() -> None:
    upstreams = (
        UpstreamStatus("Source", "t1", "$JS.a.API", 12, NOW - 3723, "nobody answers (10045)"),
        UpstreamStatus("Source", "t2", "$JS.b.API", 0),
        UpstreamStatus("Mirror", "t3", "", 0, -1.0),
    )
    domain = DomainStatus("ACC", "hub", True, streams=(StreamStatus("sales", 1234, 2048, upstreams),))
    site = SiteStatus("hub", "hub", (ServerStatus("hub", "h:1", True, 3, "2"),), (domain,))
    text = text_of(SitesStatus(17, (site,), (AccountLink("a", "hub", "ACC", False, NOW - 60),)))
    assert "Sites, supervised by process 17" in text
    assert "3 connections" in text
    assert "│ hub  │ hub    │ sales  │ 1,234    │ 2.0 KiB │" in text
    lines = {name: line for line in text.splitlines() for name in ("t1", "t2", "t3") if name in line}
    assert "(1h2m3s)" in lines["t1"]
    assert "nobody answers (10045)" in lines["t1"]
    assert "never seen" in lines["t3"]
    assert [name for name in lines if "unknown" in lines[name]] == ["t1", "t3"]
    assert lines["t2"].count("│       ") >= 1
    assert "silent" in text
    assert "(1m0s)" in text


def test_what_does_not_run_is_said() -> None:
    domain = DomainStatus("ACC", "hub", False, "cannot be reached")
    site = SiteStatus("hub", "hub", (ServerStatus("hub", "h:1", False),), (domain,))
    text = text_of(SitesStatus(0, (site,), ()))
    assert "not supervised" in text
    assert "no answer" in text
    assert "cannot be reached" in text
    assert "Leaf links" not in text


def test_engines_and_the_servers_of_a_journal_are_listed() -> None:
    engines = (EngineStatus(1, "serving", NOW - 60, 7, 4711, 2), EngineStatus(2, "down"))
    servers = (
        JournalServer("n0", "leader", True, True),
        JournalServer("n1", "follower", True, False, 1234),
        JournalServer("n2", "follower", False, False),
    )
    sites = (
        SiteStatus("a", "a", (), (), engines, JournalStatus("nats://x/A", servers)),
        SiteStatus("b", "b", (), (), (), JournalStatus("s3://lake/b")),
        SiteStatus("c", "c", (), (), (), JournalStatus("nats://y/C", problem="Cannot connect")),
    )
    lines = [line.split() for line in text_of(SitesStatus(17, sites, ())).replace("│", " ").splitlines()]
    assert any(
        line[:3] == ["a", "1", "serving"] and line[-4:] == ["(1m0s)", "7", "4711", "2"] for line in lines
    )
    assert ["a", "2", "down", "0"] in lines
    assert ["a", "n0", "leader", "current", "0"] in lines
    assert ["a", "n1", "follower", "behind", "1,234"] in lines
    assert ["a", "n2", "follower", "down", "0"] in lines
    assert ["b", "s3://lake/b", "objects"] in lines
    assert ["c", "nats://y/C", "Cannot", "connect"] in lines
