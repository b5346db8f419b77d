"""The index of schedules, the rules for them, and what they publish."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.errors import ApiError
from headwater.model import headers as header_block
from headwater.model.times import SECOND, format_time
from headwater.stream.timing.schedules import Due, ScheduleIndex, ScheduleRules, fired, purged_by
from stream.streams import headers

NOW = 1_700_000_000 * SECOND
RULES = ScheduleRules(("s.>",), allowed=True, with_ttl=True)


def schedule(at_s: int) -> bytes:
    """Return the headers of a message to be published at a second."""
    return headers(Nats_Schedule=f"@at {format_time(at_s * SECOND)}", Nats_Schedule_Target="s.out")


def refused(
    block: bytes, subject: bytes = b"s.in", rules: ScheduleRules = RULES, found: bool | None = None
) -> int:
    """Return the number of the error that refuses a message."""
    with pytest.raises(ApiError) as caught:
        rules.check(subject, block, NOW, lambda subject: found)
    return caught.value.err_code


def test_the_soonest_schedule_is_due_first() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", schedule(30))
    index.note(2, 0, b"b", schedule(20))
    index.note(3, 0, b"c", schedule(10))
    assert index.next_ns() == 10 * SECOND
    assert [entry.subject for entry in index.due(20 * SECOND, 10)] == [b"b", b"c"]
    assert [entry.subject for entry in index.due(99 * SECOND, 1)] == [b"c"]
    assert len(index) == 3


def test_a_subject_has_one_schedule_the_newest() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", schedule(10))
    index.note(2, 0, b"a", schedule(20))
    assert index.due(15 * SECOND, 10) == []
    assert index.seq_on(b"a") == 2
    index.remove(BitMap64([1]))
    assert index.next_ns() == 20 * SECOND


def test_any_other_message_on_the_subject_ends_a_schedule() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", schedule(10))
    index.note(2, 0, b"a", b"")
    assert index.next_ns() is None
    assert index.seq_on(b"a") == 0


def test_what_another_schedule_publishes_on_the_subject_does_not_end_it() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", schedule(10))
    index.note(2, 0, b"a", headers(Nats_Scheduler="b", Nats_Schedule_Next="purge"))
    assert index.seq_on(b"a") == 1


def test_a_published_message_says_when_its_schedule_is_due_next() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", headers(Nats_Schedule="@every 10s", Nats_Schedule_Target="s.out"))
    assert index.next_ns() == 10 * SECOND
    index.note(2, 0, b"out", headers(Nats_Scheduler="a", Nats_Schedule_Next=format_time(77 * SECOND)))
    assert index.due(99 * SECOND, 10) == [Due(77 * SECOND, 1, b"a")]
    index.note(3, 0, b"out", headers(Nats_Scheduler="unknown", Nats_Schedule_Next=format_time(1)))
    assert index.next_ns() == 77 * SECOND


def test_a_removed_message_is_no_schedule_any_more() -> None:
    index = ScheduleIndex()
    for seq in (1, 2, 3):
        index.note(seq, 0, b"%d" % seq, schedule(seq))
    index.remove(BitMap64([1, 9]))
    index.retain(BitMap64([1, 3]))
    assert [entry.seq for entry in index.due(99 * SECOND, 10)] == [3]
    index.clear()
    assert index.next_ns() is None


def test_a_checkpoint_keeps_the_times_that_are_due() -> None:
    index = ScheduleIndex()
    index.note(1, 0, b"a", schedule(10))
    index.postpone(b"a", 50 * SECOND)
    other = ScheduleIndex()
    other.restore(index.dump())
    assert other.due(99 * SECOND, 10) == [Due(50 * SECOND, 1, b"a")]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 50)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_index_holds_what_a_plain_list_would(steps: list[tuple[int, int, int]]) -> None:
    index, plain = ScheduleIndex(), dict[bytes, Due]()
    for seq, (kind, name, at) in enumerate(steps, 1):
        subject = b"%d" % name
        if kind == 0:
            index.note(seq, 0, subject, schedule(at))
            plain[subject] = Due(at * SECOND, seq, subject)
        elif kind == 1:
            index.note(seq, 0, subject, b"")
            plain.pop(subject, None)
        elif kind == 2:
            index.postpone(subject, at * SECOND)
            if subject in plain:
                plain[subject] = plain[subject]._replace(at_ns=at * SECOND)
        else:
            index.remove(BitMap64([at]))
            plain = {key: entry for key, entry in plain.items() if entry.seq != at}
        assert index.next_ns() == min((entry.at_ns for entry in plain.values()), default=None)
    assert index.due(25 * SECOND, 99) == sorted(
        (entry for entry in plain.values() if entry.at_ns <= 25 * SECOND), key=lambda entry: entry.seq
    )


def test_a_schedule_is_stored_as_the_only_message_of_its_subject() -> None:
    block = schedule(99)
    assert RULES.check(b"s.in", block, NOW, lambda subject: None) == header_block.add(
        block, b"Nats-Rollup", b"sub"
    )
    rolled = header_block.add(block, b"Nats-Rollup", b"Sub")
    assert RULES.check(b"s.in", rolled, NOW, lambda subject: None) == rolled


def test_what_is_no_schedule_is_left_alone() -> None:
    block = headers(Own="x")
    assert RULES.check(b"s.in", block, NOW, lambda subject: None) == block


@pytest.mark.parametrize(
    ("more", "err_code"),
    [
        ({"Nats_Schedule": "soon"}, 10189),
        ({"Nats_Schedule": "0 0 0 30 2 *"}, 10189),
        ({"Nats_Schedule_Time_Zone": "Nowhere"}, 10223),
        ({"Nats_Schedule_Time_Zone": ""}, 10223),
        ({"Nats_Schedule_TTL": "x"}, 10191),
        ({"Nats_Schedule_Rollup": "all"}, 10192),
        ({"Nats_Schedule_Target": "s.in"}, 10190),
        ({"Nats_Schedule_Target": "s.*"}, 10190),
        ({"Nats_Schedule_Target": ""}, 10190),
        ({"Nats_Schedule_Target": "other"}, 10190),
        ({"Nats_Schedule_Source": "s.out"}, 10203),
        ({"Nats_Schedule_Source": "s.in"}, 10203),
        ({"Nats_Schedule_Source": "s.>"}, 10203),
        ({"Nats_Schedule_Source": "other"}, 10203),
        ({"Nats_Schedule_Source": "other.*", "Nats_Schedule_Target": "other"}, 10203),
        ({"Nats_Rollup": "all"}, 10192),
        ({"Nats_Scheduler": "s.x"}, 10212),
        ({"Nats_Schedule_Next": "later", "Nats_Scheduler": "s.x"}, 10212),
    ],
)
def test_an_invalid_schedule_is_refused(more: dict[str, str], err_code: int) -> None:
    block = headers(**{"Nats_Schedule": "@hourly", "Nats_Schedule_Target": "s.out"} | more)
    assert refused(block) == err_code


def test_with_schedules_off_even_an_invalid_one_gets_that_error() -> None:
    off = ScheduleRules(("s.>",), allowed=False, with_ttl=True)
    assert refused(schedule(99), rules=off) == 10188
    assert refused(headers(Nats_Schedule="soon"), rules=off) == 10188
    assert refused(headers(Nats_Schedule_Next="purge", Nats_Scheduler="s.x"), rules=off) == 10188


def test_a_ttl_for_what_is_published_needs_ttls() -> None:
    without = ScheduleRules(("s.>",), allowed=True, with_ttl=False)
    assert refused(header_block.add(schedule(99), b"Nats-Schedule-TTL", b"1h"), rules=without) == 10166


def test_only_a_schedule_can_be_ended() -> None:
    ends = headers(Nats_Schedule_Next="purge", Nats_Scheduler="s.x")
    assert RULES.check(b"s.in", ends, NOW, lambda subject: True) == ends
    assert RULES.check(b"s.in", ends, NOW, lambda subject: None) == ends
    assert refused(ends, found=False) == 10212
    assert refused(ends, subject=b"s.x", found=True) == 10212
    assert purged_by(ends) == b"s.x"
    assert purged_by(headers(Nats_Schedule_Next="later", Nats_Scheduler="s.x")) == b""


def test_a_scheduled_message_names_its_schedule_and_has_the_configured_headers() -> None:
    block = headers(
        Nats_Schedule="@every 1m",
        Nats_Schedule_Target="s.out",
        Nats_Schedule_TTL="5s",
        Nats_Schedule_Rollup="sub",
        Nats_Msg_Id="x",
        Nats_TTL="1h",
        Nats_Rollup="sub",
        Nats_Expected_Stream="S",
        Own="kept",
    )
    result = fired(Due(NOW, 7, b"s.in"), block, block, NOW)
    assert result is not None
    assert result.target == b"s.out"
    assert result.next_ns == NOW + 60 * SECOND
    assert header_block.parse(result.headers) == [
        (b"Own", b"kept"),
        (b"Nats-Scheduler", b"s.in"),
        (b"Nats-Schedule-Next", format_time(NOW + 60 * SECOND).encode()),
        (b"Nats-TTL", b"5s"),
        (b"Nats-Rollup", b"sub"),
    ]


def test_what_is_published_once_ends_its_schedule() -> None:
    result = fired(Due(NOW, 7, b"s.in"), schedule(99), headers(Other="content"), NOW)
    assert result is not None
    assert result.next_ns is None
    assert purged_by(result.headers) == b"s.in"
    assert header_block.get(result.headers, b"Other") == b"content"


def test_a_schedule_that_has_lost_its_sense_publishes_nothing() -> None:
    assert fired(Due(NOW, 7, b"s.in"), headers(Nats_Schedule="@hourly"), b"", NOW) is None
    assert fired(Due(NOW, 7, b"s.in"), headers(Nats_Schedule_Target="s.out"), b"", NOW) is None
