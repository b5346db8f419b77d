"""Messages just admitted answer like any other run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from headwater.model.columns import Columns
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.retention.removal import FILE_OVERHEAD
from stream.runs import message, run_of
from table.samples import columns_of, messages_of, runs_of_messages


@settings(max_examples=60, deadline=None)
@given(runs_of_messages())
def test_columns_taken_in_give_the_messages_back(messages: list[Message]) -> None:
    assert messages_of(OfferedRun.of(columns_of(messages))) == messages


@settings(max_examples=60, deadline=None)
@given(runs_of_messages())
def test_every_column_is_the_one_of_the_messages(messages: list[Message]) -> None:
    run: Run = run_of(messages)
    payloads = [len(m.subject) + len(m.headers) + len(m.data) for m in messages]
    assert len(run) == len(messages)
    assert run.seqs.tolist() == [m.seq for m in messages]
    assert run.ts.tolist() == [m.ts for m in messages]
    assert run.subjects == [m.subject for m in messages]
    assert run.sizes.tolist() == payloads
    assert run.with_headers.tolist() == [bool(m.headers) for m in messages]
    assert run_of(messages).payload_bytes == sum(payloads)
    odd = list(range(1, len(messages), 2))
    assert run.payloads(odd) == ([messages[i].headers for i in odd], [messages[i].data for i in odd])
    assert run.subjects_at(odd) == [messages[i].subject for i in odd]
    assert run.payloads(range(len(messages)))[1] == [m.data for m in messages]
    assert run.subject_mask(lambda s: s.startswith(b"a")).tolist() == [
        m.subject.startswith(b"a") for m in messages
    ]


def test_ranges_serve_as_sequences_and_times() -> None:
    run = OfferedRun(range(5, 8), range(50, 53), (b"a", b"b", b"c"), (b"", b"", b""), (b"1", b"2", b"3"))
    assert run.message(1) == Message(6, 51, b"b", b"", b"2")
    assert run.seqs.dtype == np.int64
    assert (run.seqs.tolist(), run.ts.tolist()) == ([5, 6, 7], [50, 51, 52])
    assert FILE_OVERHEAD.sizes(run).tolist() == [32, 32, 32]


def test_a_run_counts_its_payload_and_more_against_the_memory_it_may_take() -> None:
    small, large = run_of([message(1)]), run_of([message(1, data=b"x" * 10_000)])
    assert large.nbytes == small.nbytes + 10_000
    assert small.nbytes > small.payload_bytes


@pytest.mark.parametrize("joined", [b"abcde", bytearray(b"abcde"), memoryview(b"abcde")])
def test_columns_may_be_any_kind_of_bytes(joined: bytes) -> None:
    lengths, none = np.array([2, 0, 3], np.uint32), np.zeros(3, np.uint32)
    numbers = np.array([1, 2, 3], np.int64)
    run = OfferedRun.of(Columns(numbers, numbers, lengths, joined, none, b"", lengths, joined))
    assert run.subjects == [b"ab", b"", b"cde"]
    assert list(run.datas) == [b"ab", b"", b"cde"]
    assert list(run.headers) == [b"", b"", b""]


def test_runs_are_joined_in_order() -> None:
    first = OfferedRun([1, 3], [10, 30], [b"a", b"b"], [b"", b"h"], [b"x", b"y"])
    second = OfferedRun(range(7, 8), range(70, 71), [b"c"], [b""], [b"z"])
    joined = OfferedRun.joined([first, second])
    assert [joined.message(index) for index in range(3)] == [
        Message(1, 10, b"a", b"", b"x"),
        Message(3, 30, b"b", b"h", b"y"),
        Message(7, 70, b"c", b"", b"z"),
    ]
