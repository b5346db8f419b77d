"""Tables and rows: fitted to a width, plain in a pipe, and in ASCII where nothing else can be written."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from headwater.cli.render import PIPE_WIDTH, Column, LabelledRows, Sheet, console, show, show_json

SHEET = Sheet(
    "Streams",
    [Column("Name", wraps=True), Column("Notes", wraps=True, gives_way=2), Column("Lost", gives_way=1)],
    [["ORDERS", "all that was ordered", "0"], ["RETURNS", "", "0"]],
)


def lines(item: object, width: int | None) -> list[str]:
    """Return the lines that are written in this width."""
    out = io.StringIO()
    show(item, to=console(out, width))
    return out.getvalue().splitlines()


def test_a_table_has_its_title_inside_the_frame() -> None:
    assert lines(SHEET, None) == [
        "╭───────────────────────────────────────╮",
        "│                Streams                │",
        "├─────────┬──────────────────────┬──────┤",
        "│ Name    │ Notes                │ Lost │",
        "├─────────┼──────────────────────┼──────┤",
        "│ ORDERS  │ all that was ordered │ 0    │",
        "│ RETURNS │                      │ 0    │",
        "╰─────────┴──────────────────────┴──────╯",
    ]


def test_what_says_nothing_goes_before_anything_wraps() -> None:
    assert lines(SHEET, 40)[3] == "│ Name    │ Notes                │"


def test_cells_wrap_between_words() -> None:
    assert lines(SHEET, 24)[5:7] == ["│ ORDERS  │ all that   │", "│         │ was        │"]


def test_what_is_left_out_although_it_says_something_is_named() -> None:
    sheet = Sheet(SHEET.title, [*SHEET.columns[:2], Column("Messages")], [["A", "note", "1"]])
    assert lines(sheet, 20) == [
        "╭─────────────────╮",
        "│     Streams     │",
        "├──────┬──────────┤",
        "│ Name │ Messages │",
        "├──────┼──────────┤",
        "│ A    │ 1        │",
        "╰──────┴──────────╯",
        "Too narrow for: ",
        "Notes",
    ]


def test_a_long_title_widens_the_last_column() -> None:
    assert lines(Sheet("A title that is long", [Column("A")], [["1"]]), None) == [
        "╭──────────────────────╮",
        "│ A title that is long │",
        "├──────────────────────┤",
        "│ A                    │",
        "├──────────────────────┤",
        "│ 1                    │",
        "╰──────────────────────╯",
    ]


def test_where_only_ascii_can_be_written_the_frame_is_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    Console(file=out, width=60).print(SHEET)
    out.flush()
    written = raw.getvalue().decode("ascii").splitlines()
    assert written[0] == "+---------------------------------------+"
    assert written[2] == "+---------+----------------------+------+"


def test_markup_in_names_is_not_obeyed() -> None:
    assert "[red]x[/red] :smile:" in lines(Sheet("T", [Column("A")], [["[red]x[/red] :smile:"]]), None)[5]


def test_labels_are_aligned_on_the_colon_and_empty_sections_left_out() -> None:
    rows = LabelledRows("Information for X")
    rows.section("").append(("Replicas", "1"))
    rows.section("Metadata")
    rows.section("Options").extend([("Direct Get", Text("true", "red")), ("", ""), ("Sources", "A\nB")])
    assert [line.rstrip() for line in lines(rows, 60)] == [
        "Information for X",
        "",
        "    Replicas: 1"[1:],
        "",
        "Options:",
        "",
        "  Direct Get: true"[1:],
        "",
        "     Sources: A"[1:],
        "              B"[1:],
    ]


def test_a_pipe_has_no_width_unless_columns_says_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console(io.StringIO()).width == PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "80")
    assert console(io.StringIO()).width == 80


def test_json_is_indented_and_keeps_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "größer"})
    assert capsys.readouterr().out == '{\n  "name": "größer"\n}\n'
