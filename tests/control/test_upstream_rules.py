"""What a stream may be copied from."""

from __future__ import annotations

import pytest

from headwater.control.upstream_rules import check_filters, check_upstreams
from headwater.errors import ApiError
from headwater.model.stream import StreamConfig
from headwater.model.upstream import External, StreamSource, TransformConfig

ORIGIN = StreamConfig(name="O", subjects=("o.>",), max_msg_size=100, allow_direct=True)
EXISTING = {"O": ORIGIN}


def refused(config: StreamConfig, existing: dict[str, StreamConfig] | None = None) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        check_upstreams(config, EXISTING if existing is None else existing, pedantic=False)
    return caught.value.err_code, caught.value.description


def test_a_mirror_takes_direct_over_from_a_visible_origin() -> None:
    config = StreamConfig(name="S", mirror=StreamSource("O"))
    assert check_upstreams(config, EXISTING, pedantic=False).mirror_direct
    remote = StreamConfig(name="S", mirror=StreamSource("O", external=External("$JS.d.API")))
    assert not check_upstreams(remote, EXISTING, pedantic=False).mirror_direct


def test_a_target_takes_what_its_origin_holds() -> None:
    assert refused(StreamConfig(name="S", mirror=StreamSource("O"), max_msg_size=99))[0] == 10030
    assert refused(StreamConfig(name="S", sources=(StreamSource("O"),), max_msg_size=99))[0] == 10046


def test_two_sources_of_one_identity_are_refused() -> None:
    twice = StreamConfig(name="S", sources=(StreamSource("O"), StreamSource("O", opt_start_seq=3)))
    assert refused(twice) == (10140, "duplicate source configuration detected")


def test_transforms_of_a_mirror_must_not_collide_but_those_of_a_source_may() -> None:
    transforms = (TransformConfig("a.*"), TransformConfig("*.b"))
    mirror = StreamConfig(name="S", mirror=StreamSource("X", subject_transforms=transforms))
    assert refused(mirror)[0] == 10152
    source = StreamConfig(name="S", sources=(StreamSource("X", subject_transforms=transforms),))
    assert check_upstreams(source, EXISTING, pedantic=False) == source


def test_a_deliver_prefix_must_not_reach_a_visible_origin() -> None:
    external = StreamSource("X", external=External("$JS.d.API", "o"))
    overlapping = StreamConfig(name="S", sources=(StreamSource("O"), external))
    assert refused(overlapping) == (
        10022,
        "stream external delivery prefix o overlaps with stream subject o.>",
    )


def test_a_cycle_is_found_through_other_streams() -> None:
    existing = {
        "A": StreamConfig(name="A", subjects=("a",), sources=(StreamSource("B"),)),
        "B": StreamConfig(name="B", mirror=StreamSource("S")),
    }
    assert refused(StreamConfig(name="S", sources=(StreamSource("A"),)), existing) == (
        10052,
        "detected cycle",
    )


def test_a_wide_lattice_of_streams_is_searched_in_bounded_time() -> None:
    existing = {}
    for layer in range(40):
        below = tuple(StreamSource(f"{side}{layer + 1}") for side in "LR")
        for side in "LR":
            existing[f"{side}{layer}"] = StreamConfig(name=f"{side}{layer}", sources=below)
    config = StreamConfig(name="S", sources=(StreamSource("L0"), StreamSource("R0")))
    assert check_upstreams(config, existing, pedantic=False) == config


def test_a_filter_that_matches_nothing_is_refused_in_the_wrapper_of_the_request() -> None:
    with pytest.raises(ApiError) as caught:
        check_filters(StreamConfig(sources=(StreamSource("X", filter_subject="o..b"),)), "stream_update")
    assert (caught.value.err_code, caught.value.description) == (
        10069,
        "subject filter 'o..b' for the source: invalid subject",
    )
    with pytest.raises(ApiError) as caught:
        check_filters(StreamConfig(mirror=StreamSource("X", filter_subject="o..b")), "stream_create")
    assert caught.value.err_code == 10049


HOSTILE_PREFIXES = [
    "$JS.*.API",
    "$JS.>",
    "$JS.d API",
    "$JS.d.API\r\nPUB x 0\r\n",
    "$JS.d\x00.API",
    "$JS.d\x1b[2J.API",
    "$JS..API",
    ".",
    "$SYS.REQ.ACCOUNT",
    "$HEADWATER.id.REPLICATION",
    "_INBOX.somebody",
    "x" * 1025,
]


@pytest.mark.parametrize("prefix", HOSTILE_PREFIXES, ids=ascii)
def test_a_prefix_that_leads_to_no_origin_is_refused(prefix: str) -> None:
    api = StreamConfig(name="S", sources=(StreamSource("O", external=External(prefix)),))
    code, said = refused(api)
    assert code in (10021, 10052)
    assert len(said) < 250
    deliver = StreamConfig(name="S", mirror=StreamSource("O", external=External("$JS.d.API", prefix)))
    assert refused(deliver)[0] == 10024


HOSTILE_NAMES = ["", "a b", "*", ">", "../../etc", "a\r\nPUB x 0\r\n", "a\x00", "a\x1b", "n" * 1025]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
@pytest.mark.parametrize("external", [None, External("$JS.d.API")], ids=["local", "remote"])
def test_an_origin_whose_name_is_no_streams_is_refused(name: str, external: External | None) -> None:
    source = StreamSource(name, external=external)
    assert refused(StreamConfig(name="S", sources=(source,)))[0] == 10141
    assert refused(StreamConfig(name="S", mirror=source))[0] == 10142
