"""The map of the replication as GraphViz text and as a drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headwater.cli import graph
from headwater.errors import Error
from stream_infos import FRESH, ORDERS, SALES, STORY, info

SVG = "{http://www.w3.org/2000/svg}"


def test_the_story_in_the_language_of_graphviz() -> None:
    assert graph.dot_text(graph.replication_graph(STORY)).splitlines() == [
        "digraph {",
        '\tlabel="Stream Replication Structure";',
        '\tn1[label="ARCHIVE"];',
        '\tn2[label="ORDERS"];',
        '\tn3[label="REPORT"];',
        '\tn4[label="RETURNS"];',
        '\tn2->n1[color="green"];',
        '\tn4->n1[color="green"];',
        '\tn1->n3[color="blue",label="Mirror"];',
        "}",
    ]


def test_filters_are_labels_and_remote_origins_carry_their_prefix() -> None:
    text = graph.dot_text(graph.replication_graph([SALES, FRESH]))
    assert 'label="tickets-1.sold untransformed' in text
    assert '[label="tickets-1\\n$JS.spoke-1.API"]' in text
    assert '[label="cinema-a\\n$JS.hub.API"]' in text


def test_an_upstream_with_an_unknown_lag_is_dashed() -> None:
    seen = {"name": "SEEN", "lag": 0, "active": 1}
    away = {"name": "AWAY", "lag": 0, "active": 1, "error": {"description": "nobody answers"}}
    never = {"name": "NEVER", "lag": 0, "active": -1}
    drawn = graph.replication_graph([info("X", sources=[seen, away, never])])
    dashed = [line for line in graph.dot_text(drawn).splitlines() if "style=dashed" in line]
    assert len(dashed) == 2
    assert all('label="(state unknown)"' in line for line in dashed)
    assert graph.svg_text(drawn).count("stroke-dasharray") == 2


def test_a_lag_is_on_the_edge_until_it_is_caught_up() -> None:
    behind = {"name": "A", "lag": 1234, "active": 1}
    level = {"name": "B", "lag": 0, "active": 1}
    text = graph.dot_text(graph.replication_graph([info("X", sources=[behind, level])]))
    assert 'n1->n3[color="green",label="(1,234 behind)"];' in text
    assert 'n2->n3[color="green"];' in text


def test_streams_that_are_not_replicated_are_not_on_the_map() -> None:
    assert graph.replication_graph([ORDERS]) == graph.Graph((), ())


def test_quotes_in_a_filter_do_not_break_the_text() -> None:
    odd = info("X", sources=[{"name": "Y", "filter_subject": 'a"b', "lag": 0, "active": 1}])
    assert 'label="a\\"b untransformed"' in graph.dot_text(graph.replication_graph([odd]))


def test_our_own_drawing_is_svg_with_every_stream_and_arrow() -> None:
    drawn = graph.replication_graph([*STORY, SALES])
    root = ET.fromstring(graph.svg_text(drawn))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert {"ARCHIVE", "ORDERS", "REPORT", "RETURNS", "sales", "$JS.spoke-1.API"} <= set(texts)
    arrows = [node for node in root.iter(f"{SVG}path") if node.get("marker-end")]
    assert len(arrows) == len(drawn.edges)


def test_each_stream_stands_to_the_right_of_what_feeds_it() -> None:
    root = ET.fromstring(graph.svg_text(graph.replication_graph(STORY)))
    left = {node.text: float(node.get("x", "0")) for node in root.iter(f"{SVG}text")}
    assert left["ORDERS"] < left["ARCHIVE"] < left["REPORT"]


def test_a_circle_of_streams_is_drawn_as_well() -> None:
    a = info("A", sources=[{"name": "B", "lag": 0, "active": 1}])
    b = info("B", sources=[{"name": "A", "lag": 0, "active": 1}])
    assert ET.fromstring(graph.svg_text(graph.replication_graph([a, b]))) is not None


def test_without_graphviz_we_draw_ourselves_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    drawn = graph.replication_graph(STORY)
    assert graph.draw(drawn, tmp_path / "a.svg", "svg").startswith("headwater")
    assert (tmp_path / "a.svg").read_text() == graph.svg_text(drawn)
    with pytest.raises(Error, match="--png needs GraphViz"):
        graph.draw(drawn, tmp_path / "a.png", "png")


def test_with_graphviz_its_program_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexec /bin/cat\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    drawn = graph.replication_graph(STORY)
    assert graph.draw(drawn, tmp_path / "a.png", "png") == "GraphViz"
    assert (tmp_path / "a.png").read_text() == graph.dot_text(drawn)


def test_a_drawing_program_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Error, match="use --dot FILE instead"):
        graph.draw(graph.replication_graph(STORY), tmp_path / "a.svg", "svg")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"cannot write .*no such file"):
        graph.write(tmp_path / "no" / "a.svg", "")


def test_a_map_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "map.svg"
    graph.write(path, "old")

    def interrupted(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            graph.write(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["map.svg"]
    assert path.read_text() == "old"
    graph.write(path, "new")
    assert path.read_text() == "new"
