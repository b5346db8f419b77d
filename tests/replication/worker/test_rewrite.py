"""Subjects and headers of copied messages, as nats-server's own sources and mirrors leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.replication.worker.rewrite import Rewrite
from headwater.table.arrow_tables import rows_of
from headwater.table.pages import data_chunk
from replication.works import TS, messages_in, work_of
from table.samples import columns_of

SOURCE = ("ORDERS", ">", ">", "IDENT")


def rewritten(messages: Sequence[Message], **fields: Any) -> list[Message]:
    """Return what becomes of the messages."""
    rows = rows_of(columns_of(messages))
    return messages_in(Rewrite(work_of(stop_seq=10**6, **fields)).apply(rows).columns())


def plain(seq: int, subject: bytes, **headers: str) -> Message:
    """Return a message; underscores in the names of its headers are dashes."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Message(seq, TS + seq, subject, header_block.build(pairs), b"data %d" % seq)


def test_without_rules_the_arrays_themselves_are_returned() -> None:
    rows = rows_of(columns_of([plain(1, b"a", Color="red"), plain(2, b"b")]))
    made = Rewrite(work_of(stop_seq=2, mirrored=True)).apply(rows)
    assert (made.subjects, made.headers, made.datas) == (rows.subjects, rows.headers, rows.datas)
    assert made.headers is rows.headers


def test_filters_keep_what_any_of_them_takes() -> None:
    messages = [plain(1, b"a.1"), plain(2, b"b.1"), plain(3, b"c.1"), plain(4, b"a.2")]
    assert [m.seq for m in rewritten(messages, filters=("a.*", "c.>"))] == [1, 3, 4]


def test_the_first_transform_that_takes_a_subject_rewrites_it_and_others_are_dropped() -> None:
    messages = [plain(1, b"a.1"), plain(2, b"b.1"), plain(3, b"c.1"), plain(4, b"a.2")]
    made = rewritten(messages, transforms=(("a.2", ""), ("a.*", "x.$1"), ("c.>", "y.>")))
    assert [(m.seq, m.subject) for m in made] == [(1, b"x.1"), (3, b"y.1"), (4, b"a.2")]


def test_a_subject_of_which_nothing_would_be_left_stays_as_it_was() -> None:
    made = rewritten([plain(1, b"a.b"), plain(2, b"a.cbd")], transforms=(("a.*", "{{split(1,b)}}"),))
    assert [m.subject for m in made] == [b"a.b", b"c.d"]


def test_the_targets_own_transform_comes_last_and_drops_nothing() -> None:
    made = rewritten([plain(1, b"a.1"), plain(2, b"b.1")], stream_transform=("a.*", "z.{{wildcard(1)}}"))
    assert [m.subject for m in made] == [b"z.1", b"b.1"]


def test_a_random_part_is_drawn_for_each_message() -> None:
    made = rewritten(
        [plain(seq, b"a.1") for seq in range(1, 200)], transforms=(("a.*", "r.{{ Random(4) }}"),)
    )
    assert len({m.subject for m in made}) == 4


def test_a_mirror_loses_what_a_publisher_demanded_and_keeps_all_else() -> None:
    message = plain(
        1, b"a", Nats_Expected_Last_Sequence="7", Color="red", Nats_Batch_Id="x", Nats_Stream_Source="S 1 > >"
    )
    (made,) = rewritten([message], mirrored=True)
    assert header_block.parse(made.headers) == [(b"Color", b"red"), (b"Nats-Stream-Source", b"S 1 > >")]


def test_a_header_block_with_nothing_left_is_no_header_block() -> None:
    messages = [plain(1, b"a", Nats_Expected_Stream="S"), plain(2, b"a", Color="red")]
    assert [m.headers for m in rewritten(messages, mirrored=True)] == [b"", messages[1].headers]


LINES = [
    b"Color: red",
    b"Nats-Expected-Stream: S",
    b"Nats-Batch-Id: x",
    b"Nats-Stream-Source: O 1 > > a",
    b"Nats-Stream-Sources: no",
    b"Empty:",
    "Grüße: ä".encode("latin-1"),
    b"Odd: a\rb",
]


@given(
    st.lists(st.none() | st.lists(st.sampled_from(LINES), max_size=4), min_size=1, max_size=8), st.booleans()
)
def test_headers_that_are_left_out_together_are_those_left_out_one_by_one(
    blocks: list[list[bytes] | None], mirrored: bool
) -> None:
    raw = [None if each is None else b"\r\n".join([b"NATS/1.0", *each, b"", b""]) for each in blocks]
    rewrite = Rewrite(work_of(stop_seq=9, mirrored=mirrored, source_header=None if mirrored else SOURCE))
    found = rewrite._all_cleaned(pa.array(raw, pa.binary()), b"".join(each or b"" for each in raw))
    assert found.to_pylist() == [(rewrite._cleaned(each) if each else None) for each in raw]
    assert found.null_count == sum(each is None for each in found.to_pylist())


def test_a_sourced_message_names_where_it_was_in_the_form_of_nats_server() -> None:
    (made,) = rewritten([plain(7, b"orders.eu")], source_header=("ORIG:8NMxRuwd", ">", ">", "IDENT1"))
    assert made.headers == b"NATS/1.0\r\nNats-Stream-Source: ORIG:8NMxRuwd 7 > > orders.eu IDENT1\r\n\r\n"


def test_the_source_header_names_the_subject_before_it_was_rewritten() -> None:
    (made,) = rewritten(
        [plain(7, b"a.b")], transforms=(("a.*", "x.$1"),), source_header=("S", "a.*", "x.$1", "I")
    )
    assert made.subject == b"x.b"
    assert header_block.get(made.headers, b"Nats-Stream-Source") == b"S 7 a.* x.$1 a.b I"


def test_an_older_source_header_gives_way_and_other_headers_stay_before_it() -> None:
    messages = [plain(1, b"a", Nats_Stream_Source="OLD 9 > > z", Color="red"), plain(2, b"a")]
    first, second = rewritten(messages, source_header=SOURCE)
    assert header_block.parse(first.headers) == [
        (b"Color", b"red"),
        (b"Nats-Stream-Source", b"ORDERS 1 > > a IDENT"),
    ]
    assert header_block.parse(second.headers) == [(b"Nats-Stream-Source", b"ORDERS 2 > > a IDENT")]


def test_percent_signs_in_names_and_subjects_stay_what_they_are() -> None:
    (made,) = rewritten([plain(1, b"a.%d")], source_header=("S%s", "%d", "%b", "%"))
    assert header_block.get(made.headers, b"Nats-Stream-Source") == b"S%s 1 %d %b a.%d %"


@pytest.mark.parametrize("source_header", [None, SOURCE])
def test_nothing_wanted_leaves_columns_without_a_message(source_header: Any) -> None:
    assert rewritten([plain(1, b"a", Color="red")], filters=("b",), source_header=source_header) == []


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, [1, 2, 3]),
        ({"source_header": SOURCE}, [1, 2, 3]),
        ({"filters": ("a.*",)}, [1, 2]),
        ({"filters": ("a.*", "b.>")}, [1, 2, 3]),
        ({"filters": ("c",)}, []),
        ({"transforms": (("a.*", "x.$1"),)}, [1, 2]),
        ({"transforms": (("a.*", "x.$1"), ("", ""))}, [1, 2, 3]),
        ({"stream_transform": ("a.*", "x.$1")}, [1, 2, 3]),
    ],
)
def test_it_is_known_beforehand_which_messages_are_wanted(fields: dict[str, Any], wanted: list[int]) -> None:
    rewrite = Rewrite(work_of(stop_seq=10, **fields))
    texts = ["a.1", "a.2", "b.1"]
    messages = [plain(seq, text.encode()) for seq, text in enumerate(texts, start=1)]
    rows = rows_of(columns_of(messages))
    assert rewrite.wants_any(texts) is bool(wanted)
    assert rows.seqs[rewrite.wanted(rows)].tolist() == wanted
    assert [m.seq for m in rewritten(messages, **fields)] == wanted
    assert rewrite.made(rows.filter(rewrite.wanted(rows))).columns().seqs.tolist() == wanted


@pytest.mark.parametrize(
    "fields",
    [
        {"source_header": SOURCE},
        {"transforms": ((">", "x.{{random(100)}}.>"),), "source_header": SOURCE},
        {"filters": ("a.*", "b.>")},
    ],
)
def test_data_in_pages_stays_in_them(fields: dict[str, Any]) -> None:
    rows = rows_of(columns_of([plain(1, b"a.1", Color="red"), plain(2, b"b.1")]))
    pages = data_chunk.encode(rows.datas, "none")
    rewrite = Rewrite(work_of(stop_seq=2, **fields))
    made = rewrite.apply(replace(rows, datas=pages))
    assert made.datas is pages
    assert made.headers.equals(rewrite.apply(rows).headers)
