"""Which subjects a stream may listen on, transform and republish to."""

from __future__ import annotations

import pytest

from headwater.control.subject_rules import (
    check_overlap,
    check_republish,
    check_subjects,
    check_transform,
    complete_republish,
)
from headwater.errors import ApiError
from headwater.model.stream import RePublish, StreamConfig
from headwater.model.upstream import StreamSource, TransformConfig


def test_a_stream_without_any_input_listens_on_its_name() -> None:
    assert check_subjects(StreamConfig(name="S")).subjects == ("S",)
    assert check_subjects(StreamConfig(name="S", mirror=StreamSource("O"))).subjects == ()
    assert check_subjects(StreamConfig(name="S", sources=(StreamSource("O"),))).subjects == ()


@pytest.mark.parametrize(
    ("subjects", "complaint"),
    [
        (("a..b",), "invalid subject"),
        (("a", "a"), 'subject "a" overlaps with "a"'),
        (("a.*", "a.b"), 'subject "a.*" overlaps with "a.b"'),
        ((">",), "capturing all subjects requires no-ack to be true"),
        (("$JS.API.x",), "subjects that overlap with jetstream api require no-ack to be true"),
        (("$SYS.x",), "subjects that overlap with system api require no-ack to be true"),
        (("$HEADWATER.x",), "subjects must not overlap with the engine's internal subjects"),
        (("x" * 3073,), "subjects must not be longer than 3072 bytes"),
    ],
)
def test_subjects_that_cannot_be_are_refused(subjects: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_subjects(StreamConfig(name="S", subjects=subjects))
    assert (caught.value.err_code, caught.value.description) == (10052, complaint)


def test_streams_do_not_share_a_subject() -> None:
    other = StreamConfig(name="T", subjects=("a.>",))
    check_overlap(StreamConfig(name="S", subjects=("b", "a")), [other])
    with pytest.raises(ApiError) as caught:
        check_overlap(StreamConfig(name="S", subjects=("b", "*.c")), [other])
    assert caught.value.err_code == 10065


@pytest.mark.parametrize(
    ("ours", "theirs", "overlap"),
    [
        (("a.b",), ("a.b",), True),
        (("a.b",), ("a.c", "a.bc", "b"), False),
        (("a.b",), ("a.*",), True),
        (("a.b",), (">",), True),
        (("a.b", "c.*"), ("a.c", "c.d"), True),
        (("c.*",), ("c.d.e",), False),
        (("a.b", "x"), ("a.b.c", "*.c", "x.>"), False),
    ],
)
def test_literal_subjects_and_patterns_overlap_alike(
    ours: tuple[str, ...], theirs: tuple[str, ...], overlap: bool
) -> None:
    others = [StreamConfig(name=f"T{at}", subjects=(subject,)) for at, subject in enumerate(theirs)]
    if not overlap:
        check_overlap(StreamConfig(name="S", subjects=ours), others)
        return
    with pytest.raises(ApiError):
        check_overlap(StreamConfig(name="S", subjects=ours), others)


def test_a_transform_is_refused_by_source_or_destination() -> None:
    with pytest.raises(ApiError) as caught:
        check_transform(StreamConfig(subject_transform=TransformConfig("a..b", "c")))
    assert caught.value.description == "stream transform source: invalid subject a..b"
    with pytest.raises(ApiError) as caught:
        check_transform(StreamConfig(subject_transform=TransformConfig("a.*", "c.$2")))
    assert caught.value.err_code == 10156


def test_republish_takes_everything_when_it_names_no_source() -> None:
    config = StreamConfig(subjects=("a",), republish=RePublish("", "r.>"))
    assert check_republish(config, pedantic=False).republish == RePublish(">", "r.>")


def test_republish_follows_the_transform_of_the_only_subject() -> None:
    config = StreamConfig(
        subjects=("a.>",), subject_transform=TransformConfig("a.>", "b.>"), republish=RePublish(">", ">")
    )
    assert check_republish(config, pedantic=False).republish == RePublish("b.>", "b.>")


def test_an_update_without_a_destination_cannot_feed_the_stream_itself() -> None:
    with pytest.raises(ApiError, match="forms a cycle"):
        complete_republish(StreamConfig(subjects=("a",), republish=RePublish(">", "")))
    with pytest.raises(ApiError) as caught:
        complete_republish(StreamConfig(subjects=("a",), republish=RePublish("a", "")))
    assert caught.value.err_code == 10069


@pytest.mark.parametrize("dest", ["$HEADWATER.id.REPLICATION.COMMIT", "$HEADWATER.>"])
def test_nothing_is_republished_to_the_engine_s_own_subjects(dest: str) -> None:
    config = StreamConfig(name="S", subjects=("s.>",), republish=RePublish(src="s.>", dest=dest))
    with pytest.raises(ApiError, match="internal subject of the engine"):
        check_republish(config, pedantic=False)
