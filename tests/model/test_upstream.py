"""The identity of a source is the one nats-server gives it."""

from __future__ import annotations

import pytest

from headwater.model.upstream import ConsumerSource, External, StreamSource, TransformConfig, hash8


@pytest.mark.parametrize(
    ("text", "hashed"), [("$JS.B.API", "8NMxRuwd"), ("MIR1 $G A", "Fr5Lj4Ew"), ("$G", "szMpdrwD")]
)
def test_hash8_gives_the_values_seen_on_a_real_server(text: str, hashed: str) -> None:
    assert hash8(text) == hashed


def test_hash8_can_hash_its_own_hash() -> None:
    assert hash8(hash8("SRC1 $G A")) == "S9L4hJ1w"


@pytest.mark.parametrize(
    ("source", "index_name"),
    [
        (StreamSource("A"), "A > >"),
        (StreamSource("A", filter_subject="x.*"), "A x.* >"),
        (StreamSource("A", external=External("$JS.B.API")), "A:8NMxRuwd > >"),
        (StreamSource("A", consumer=ConsumerSource("$G", "d")), "A:C=szMpdrwD > >"),
        (
            StreamSource("A", subject_transforms=(TransformConfig("a", "b"), TransformConfig("", ""))),
            "A a\f> b\f>",
        ),
    ],
)
def test_the_index_name_is_the_servers(source: StreamSource, index_name: str) -> None:
    assert source.index_name == index_name


def test_where_to_start_is_no_part_of_the_identity() -> None:
    assert StreamSource("A", opt_start_seq=5, opt_start_time=7).index_name == StreamSource("A").index_name


def test_the_domain_is_the_second_token_of_the_prefix() -> None:
    assert External("$JS.hub.API").domain == "hub"
    assert External("").domain == ""
