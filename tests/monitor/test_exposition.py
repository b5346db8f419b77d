"""Tests of monitor.exposition."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from headwater.meters import Histogram
from headwater.monitor.exposition import Exposition, Family, joined, labels, samples
from monitor.families import parsed


def test_every_kind_of_family_is_read_by_a_parser_of_prometheus() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(0.05, 2)
    histogram.observe(3.0)
    exposition = Exposition()
    exposition.gauge("level", "How high.", [(labels(tank="a"), 1), (labels(tank="b"), -2.5)])
    exposition.counter("drops", "How many.", [("", 2**53)])
    exposition.histogram("wait_seconds", "How long.", histogram, labels(door="x"))
    found = parsed(exposition.text())
    assert found["level"] == [({"tank": "a"}, 1.0), ({"tank": "b"}, -2.5)]
    assert found["drops_total"] == [({}, float(2**53))]
    assert found["wait_seconds_bucket"] == [
        ({"door": "x", "le": "0.1"}, 2.0),
        ({"door": "x", "le": "1.0"}, 2.0),
        ({"door": "x", "le": "+Inf"}, 3.0),
    ]
    assert found["wait_seconds_count"] == [({"door": "x"}, 3.0)]
    assert found["wait_seconds_sum"][0][1] == pytest.approx(3.1)


@pytest.mark.parametrize("hostile", ['a"b', "a\\", "a\nb", '"} 1\nfake 2\n# EOF\n', "ä {}=,"])
def test_hostile_label_values_stay_values(hostile: str) -> None:
    exposition = Exposition()
    exposition.gauge("level", "How high.", [(labels(name=hostile), 1)])
    assert parsed(exposition.text()) == {"level": [({"name": hostile}, 1.0)]}


def test_labels_without_a_value_are_left_out() -> None:
    assert labels(domain="", account="A") == '{account="A"}'
    assert labels(domain="") == ""
    assert joined(labels(a="1"), labels(b="2")) == '{a="1",b="2"}'
    assert joined("", labels(b="2")) == '{b="2"}'


def test_an_unknown_value_has_no_sample_and_an_empty_family_is_not_written() -> None:
    class Tank(NamedTuple):
        level: float | None

    family: Family[Tank] = Family("level", "How high.", lambda tank: tank.level)
    assert samples(family, [("", Tank(None)), ('{a="1"}', Tank(2.0))]) == [('{a="1"}', 2.0)]
    exposition = Exposition()
    exposition.gauge("level", "How high.", [])
    assert exposition.text() == b"# EOF\n"
