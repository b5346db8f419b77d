"""Tests of monitor.open_parts."""

from __future__ import annotations

from headwater.monitor.open_parts import OpenParts


def test_an_engine_that_starts_has_no_parts_to_read() -> None:
    parts = OpenParts()
    assert (parts.bucket(), parts.journal(), parts.replicator()) == (None, None, None)
    assert (list(parts.peers()), parts.replicator_problem()) == ([], "")
    assert (parts.cache, parts.may_send) == (None, None)
