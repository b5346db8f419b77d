"""The span of plots is one of three."""

from __future__ import annotations

from headwater.console.stream_spans import span_of


def test_an_unknown_span_is_ten_minutes() -> None:
    assert [span_of({"span": span}) for span in ("6h", "1h", "99y")] == [21600, 3600, 600]
    assert span_of({}) == 600
