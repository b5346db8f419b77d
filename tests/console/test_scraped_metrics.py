"""Metrics of an engine are read back as the engine wrote them."""

from __future__ import annotations

import math

from headwater.console.scraped_metrics import ScrapedMetrics
from headwater.monitor.exposition import Exposition, labels


def test_samples_are_read_back_with_their_labels() -> None:
    written = Exposition()
    hostile = 'a"b\\c\nd{e="f"} 7'
    written.gauge("size", "Bytes.", [(labels(stream=hostile, site="x"), 1.5), (labels(stream="B"), 2)])
    written.counter("copies", "Copies.", [("", 3)])
    read = ScrapedMetrics(written.text().decode())
    assert read.all("size") == [({"stream": hostile, "site": "x"}, 1.5), ({"stream": "B"}, 2.0)]
    assert (read.value("size", stream="B"), read.value("size", stream="C")) == (2.0, None)
    assert read.total("size") == 3.5
    assert read.by_label("size", "site") == {"x": 1.5}
    assert read.value("copies_total") == 3.0


def test_what_is_no_sample_is_left_out() -> None:
    read = ScrapedMetrics("# TYPE a gauge\na 1\nb nonsense\n<html>\nc NaN\nd +Inf 12.5\n")
    assert set(read) == {"a", "c", "d"}
    assert math.isnan(read.value("c") or 0)
