"""Which records are needed: pure decisions about positions."""

from __future__ import annotations

from headwater.journal.contents import Contents
from headwater.journal.record import ChangePiece, FileOp


def whole(path: str, data: bytes = b"x", *, more: bool = False) -> ChangePiece:
    return ChangePiece(FileOp.WHOLE, path, 0, data, more)


def write(path: str, data: bytes = b"x", *, more: bool = False) -> ChangePiece:
    return ChangePiece(FileOp.WRITE, path, 1, data, more)


def test_nothing_is_needed_of_an_empty_store() -> None:
    assert Contents().floor(9) == 9


def test_a_file_needs_all_its_pieces_until_it_is_removed() -> None:
    contents = Contents()
    contents.apply(3, [whole("a")])
    contents.apply(4, [write("a", b"xx"), whole("b")])
    assert (contents.floor(9), contents.live_bytes, contents.live_records) == (3, 4, 2)
    contents.apply(5, [ChangePiece(FileOp.REMOVE, "a")])
    assert (contents.floor(9), contents.live_bytes) == (4, 1)
    contents.apply(6, [whole("b")])
    assert contents.floor(9) == 6


def test_an_empty_file_is_needed_too() -> None:
    contents = Contents()
    contents.apply(3, [whole("a", b"")])
    assert contents.floor(9) == 3


def test_a_renamed_folder_keeps_its_pieces_and_replaces_what_was_there() -> None:
    contents = Contents()
    contents.apply(1, [whole("new/a"), whole("newer/a")])
    contents.apply(2, [whole("old/a")])
    contents.apply(3, [ChangePiece(FileOp.RENAME, "new", 0, b"old")])
    assert sorted(contents.names()) == ["newer/a", "old/a"]
    contents.apply(4, [ChangePiece(FileOp.REMOVE, "newer")])
    assert (contents.floor(9), contents.names()) == (1, ["old/a"])


def test_a_change_counts_when_its_last_piece_is_there() -> None:
    contents = Contents()
    contents.apply(1, [whole("a")])
    contents.apply(2, [whole("a", more=True)])
    contents.apply(3, [write("a", more=True)])
    assert contents.floor(9) == 1, "the old content is needed until the new one is complete"
    contents.apply(4, [write("a")])
    assert contents.floor(9) == 2


def test_the_pieces_of_an_abandoned_change_are_not_needed() -> None:
    contents = Contents()
    contents.apply(1, [whole("a", more=True)])
    assert contents.floor(9) == 1
    contents.abandon()
    assert (contents.floor(9), contents.names()) == (9, [])


def test_the_oldest_files_are_those_at_the_lowest_position() -> None:
    contents = Contents()
    contents.apply(1, [whole("a"), whole("b"), whole("c")])
    contents.apply(2, [whole("d")])
    assert contents.oldest(2) == ["a", "b"]
