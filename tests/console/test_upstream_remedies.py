"""What to do about a source that is stuck: for every error that the guide names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consoles import upstream_answer
from headwater.client.stream_info import UpstreamInfo, upstream_infos
from headwater.console.upstream_remedies import OTHERWISE, remedy_of, upstream_remedy

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "stuck-source.md"


def upstream(**more: object) -> UpstreamInfo:
    return upstream_infos({"sources": [upstream_answer("ORDERS", **more)]})[0]


def test_every_error_of_the_guide_has_a_remedy_of_its_own() -> None:
    table = GUIDE.read_text().partition("| error says |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert len(rows) >= 7
    for row in rows:
        for error in re.split(", ", row):
            assert remedy_of(error), error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("nothing is copied: Java 17 is missing, which Spark needs", "install Java"),
        ("stream not found", "external.api"),
        ("no responders on $JS.hub.API.STREAM.INFO.X", "leaf node"),
        (
            "stream 'O' was re-created or restored since it was mirrored: re-create the mirror",
            "delete the mirror",
        ),
        ("stream 'O' ends at 3, before 9, which was copied already: has it lost messages?", "lost messages"),
        ("cannot write: no space left on device", "free space"),
    ],
)
def test_an_error_is_known_by_its_words(error: str, said: str) -> None:
    assert said in upstream_remedy(upstream(error={"code": 500, "description": error}))


def test_what_is_not_known_has_a_remedy_by_its_phase_and_a_good_source_needs_none() -> None:
    progress = upstream_answer("O")["headwater"]
    strange = {"code": 500, "err_code": 1, "description": "strange"}
    assert upstream_remedy(upstream()) == ""
    assert upstream_remedy(upstream(error=strange)) == OTHERWISE
    assert "10 seconds" in upstream_remedy(
        upstream(error=strange, headwater={**progress, "phase": "retrying"})
    )
    assert "replicator runs" in upstream_remedy(upstream(headwater={**progress, "phase": "stalled"}))
    gaps = {"count": 1, "sequences": 3, "recent": []}
    assert "limits of the origin" in upstream_remedy(upstream(headwater={**progress, "gaps": gaps}))
    assert "origin's name" in upstream_remedy(upstream(active=-1))
