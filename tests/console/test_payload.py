"""Tests of console.payload."""

from __future__ import annotations

import json

import pytest

from headwater.console.payload import SHOWN_BYTES, hex_dump, parsed_json, payload_of


def test_json_is_a_tree_of_its_members() -> None:
    shown = payload_of(b'{"id": 7, "tags": ["a", null], "who": {"name": "Ada"}}')
    assert shown.kind == "json"
    assert shown.tree is not None
    assert [(node.label, node.text, node.kind) for node in shown.tree.children] == [
        ("id", "7", "number"),
        ("tags", "[2]", "array"),
        ("who", "{1}", "object"),
    ]
    assert [node.text for node in shown.tree.children[1].children] == ['"a"', "null"]
    assert shown.text is not None, "it can be shown as text, too"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"hello", "text"),
        (b"", "text"),
        (b"42", "text"),
        (b"\xff\xfe\x00", "hex"),
        (b"[" * 100 + b"]" * 100, "text"),
        (b"[" * 100_000, "text"),
        (json.dumps(list(range(9000))).encode(), "text"),
        (b'{"a": NaN}', "json"),
    ],
)
def test_every_payload_has_a_form_that_fits(data: bytes, kind: str) -> None:
    assert payload_of(data).kind == kind


def test_a_large_payload_is_cut_and_says_how_much_is_hidden() -> None:
    data = "ä".encode() * SHOWN_BYTES
    shown = payload_of(b"x" + data)
    assert shown.kind == "text", "a letter that is cut in two does not make it binary"
    assert shown.size == len(data) + 1
    assert shown.hidden == shown.size - SHOWN_BYTES
    assert shown.tree is None


def test_control_characters_and_reordered_text_are_made_visible() -> None:
    shown = payload_of("a\x1b[31m\u202eb\n".encode())
    assert shown.text == "a\\u001b[31m\\u202eb\n"
    tree = payload_of('{"\u202ex": "\u2066y"}'.encode()).tree
    assert tree is not None
    assert (tree.children[0].label, tree.children[0].text) == ("\\u202ex", '"\\u2066y"')


def test_a_hex_dump_has_offsets_and_letters() -> None:
    lines = hex_dump(bytes(range(65, 65 + 18))).splitlines()
    assert lines[0] == "00000000  41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP"
    assert lines[1].startswith("00000010  51 52 ")
    assert lines[1].endswith("  QR")


def test_a_document_that_is_too_deep_is_no_json() -> None:
    with pytest.raises(ValueError, match=r"deep|Expecting"):
        parsed_json(b"[" * 200_000)
