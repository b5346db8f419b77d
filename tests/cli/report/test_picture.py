"""Pictures of charts: real SVG and PNG, the same for the same chart, with hostile names as text."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.cli.report.chart import BarChart, Chart, TimeChart
from headwater.cli.report.picture import check_picture, draw_picture
from headwater.errors import Error, SettingsError

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOSTILE = "<script>$\\frac{1}{0}$ & \"'"
CHARTS: list[Chart] = [
    TimeChart("T", "messages", 3600, [(NOON + timedelta(hours=n), float(n % 5)) for n in range(30)]),
    TimeChart("G", "bytes", 3600, [(NOON, 1e9), (NOON + timedelta(hours=1), 4e9)], is_area=True),
    BarChart(HOSTILE, "messages", [(HOSTILE, 3.0), ("x" * 300, 1.0)], 4.0),
    TimeChart("empty", "messages", 1, ()),
    BarChart("empty", "messages", [], 0.0),
]


def test_svg_is_xml_with_its_text_and_the_same_each_time(tmp_path: Path) -> None:
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    draw_picture(CHARTS, one)
    draw_picture(CHARTS, two)
    assert one.read_bytes() == two.read_bytes()
    texts = [element.text for element in ET.parse(one).iter() if element.tag.endswith("}text")]
    assert HOSTILE in texts
    assert "3.0 GiB" in texts
    assert sorted(tmp_path.iterdir()) == [one, two]


def test_png_has_the_size_of_its_charts(tmp_path: Path) -> None:
    file = tmp_path / "chart.PNG"
    draw_picture(CHARTS[:1], file)
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (1296, 432)


def test_a_file_of_another_kind_or_a_missing_library_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match=r"must end with .svg or .png, not x.pdf"):
        check_picture(Path("x.pdf"))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(Error, match="pip install matplotlib"):
        check_picture(Path("x.svg"))


def test_a_folder_that_is_missing_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Error, match="cannot write"):
        draw_picture(CHARTS[:1], tmp_path / "missing" / "x.svg")
