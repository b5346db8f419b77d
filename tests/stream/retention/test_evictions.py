"""What exceeds a limit leaves the ledger at once; what cannot be read is reported, and stays."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headwater.errors import Error
from headwater.model.stream import Discard
from headwater.stream.retention import rules
from headwater.stream.retention.evictions import LOOKED_FOR_ONE_BY_ONE, Evictions
from headwater.stream.stream import Stream
from headwater.stream.view import NotResidentError
from stream.streams import Workshop, publish


def evictions(stream: Stream) -> Evictions:
    """Return the evictions of a stream."""
    return Evictions(stream._store, stream.events)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, False),
        ({"max_msgs": 3}, True),
        ({"max_bytes": 3}, True),
        ({"max_msgs": 3, "discard": Discard.NEW}, False),
        ({"max_msgs_per_subject": 1}, False),
    ],
)
async def test_only_limits_of_the_whole_stream_evict_the_oldest(
    workshop: Workshop, config: dict[str, Any], expected: bool
) -> None:
    async with workshop.stream(**config) as stream:
        assert evictions(stream).evicts == expected


async def test_older_messages_of_a_subject_leave_the_ledger(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4"))
        removal = evictions(stream).over_subject_limit({b"a"}, 1)
        assert list(removal.seqs) == [1, 3]
        assert [seq for seq in range(1, 5) if stream.reading.is_live(seq)] == [2, 4]
        assert not evictions(stream).over_subject_limit({b"a"}, 1)


async def test_a_rollup_empties_the_subjects_that_its_wildcards_match(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a.1", b""), (b"a.2", b""), (b"b", b""))
        found = evictions(stream)
        assert found.rolled_up_with(b"a.1") == []
        assert sorted(found.rolled_up_with(b"a.*"), key=sorted) == [{b"a.1"}, {b"a.2"}]
        many = [(b"m.%d" % n, b"") for n in range(LOOKED_FOR_ONE_BY_ONE + 1)]
        await publish(stream, *many)
        assert found.rolled_up_with(b"m.*") == [{subject for subject, _ in many}], "in one pass"


async def test_a_limit_that_cannot_be_enforced_is_logged_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: object) -> None:
        raise Error("damaged")

    async with workshop.stream(max_msgs=1) as stream:
        await publish(stream, (b"a", b""))
        found = evictions(stream)
        monkeypatch.setattr(rules, "over_limits", damaged)
        with caplog.at_level(logging.ERROR):
            assert not found.over_limits()
            assert not found.over_limits()
        assert [record.message for record in caplog.records] == [
            "stream S: cannot enforce its limits: damaged"
        ]


async def test_what_is_in_a_bucket_is_reported_and_stays(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        found = evictions(stream)
        reported: list[set[bytes]] = []
        monkeypatch.setattr(stream.events, "over_limits", reported.append)

        def away(seq: int) -> None:
            raise NotResidentError(seq)

        assert not found.older_than(1, away, {b"a"})
        assert reported == [{b"a"}]
        assert stream.reading.is_live(1)
