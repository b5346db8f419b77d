"""Which pieces of work are under way, which were lost, and which origin each was planned on."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from headwater.model.upstream import StreamSource
from headwater.replication.work import PlanRequest, Work
from headwater.stream.stream import Stream
from headwater.upstreams import leases
from headwater.upstreams.leases import NOTHING, Leases, Planned
from headwater.upstreams.upstream import Upstream


def an_upstream() -> Upstream:
    return Upstream(cast(Stream, None), StreamSource(name="O"), mirrored=False)


def planned(*ids: str, identity: str = "origin") -> Planned:
    fields = {"target": "T", "upstream": "O > >", "expected": b"", "start_seq": 1, "stop_seq": 1}
    return Planned(identity, [Work(id=work, staging="", **fields) for work in ids])  # type: ignore[arg-type]


def test_a_piece_of_work_keeps_the_origin_that_it_was_planned_on() -> None:
    works, upstream = Leases(single=True), an_upstream()
    upstream.identity = "re-created since"
    works.grant(upstream, planned("w"), 1)
    assert works.identities == {"w": "origin"}


def test_what_a_single_replicator_does_not_know_of_is_taken_back() -> None:
    works, lost, kept = Leases(single=True), an_upstream(), an_upstream()
    works.grant(lost, planned("a", "b"), 1)
    works.grant(kept, planned("c"), 1)
    works.renew(PlanRequest(name="anybody", under_way=("c",)))
    assert (lost.open_ranges, lost.leased_until_ns) == (0, 0)
    assert kept.open_ranges == 1
    assert kept.leased_until_ns > 5


def test_one_of_several_replicators_speaks_for_itself_alone() -> None:
    works, upstream = Leases(single=False), an_upstream()
    works.renew(PlanRequest(name="one"))
    works.grant(upstream, planned("a"), 1)
    works.renew(PlanRequest(name="another"))
    assert upstream.open_ranges == 1
    works.renew(PlanRequest(name="another"))
    assert upstream.open_ranges == 0


def test_a_piece_that_was_taken_back_is_known_but_awaited_no_more() -> None:
    works, upstream = Leases(single=True), an_upstream()
    works.grant(upstream, planned("early"), 1)
    works.renew(PlanRequest(name=""))
    works.grant(upstream, planned("again"), 3)
    assert works.identities["early"] == "origin"
    assert works.returned(upstream, ["early"]) == 0
    assert works.returned(upstream, ["again"]) == 1
    assert works.identities == {}


def test_an_upstream_that_was_changed_meanwhile_waits_for_none_of_the_old_pieces() -> None:
    works = Leases(single=True)
    works.grant(an_upstream(), planned("a"), 1)
    assert works.returned(an_upstream(), ["a"]) == 0


def test_very_old_pieces_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "REMEMBERED", 2)
    works, upstream = Leases(single=True), an_upstream()
    works.grant(upstream, planned("a", "b", "c"), 1)
    assert list(works.identities) == ["b", "c"]
    assert works.returned(upstream, ["a", "b", "c"]) == 2


def test_pieces_tell_together_how_much_they_read_and_how_much_of_a_plan_they_take() -> None:
    one, two = planned("a", "b").works
    many = Planned("origin", [msgspec.structs.replace(one, read_bytes=7, removed=b"12345"), two])
    assert many.read_bytes == 7
    assert many.exchange_bytes == one.exchange_bytes + two.exchange_bytes + 5
    assert (NOTHING.read_bytes, NOTHING.exchange_bytes) == (0, 0)


def test_a_lease_ends_by_a_clock_that_is_never_set_back() -> None:
    steady = [0]
    works, upstream = Leases(single=True, steady_ns=lambda: steady[0]), an_upstream()
    works.grant(upstream, planned("a"), 1_000_000_000_000)
    assert works.is_leased(upstream)
    steady[0] = 61_000_000_000
    assert not works.is_leased(upstream)


def test_a_piece_of_work_is_of_the_very_upstream_that_it_was_planned_for() -> None:
    works, upstream, same_name = Leases(single=True), an_upstream(), an_upstream()
    works.grant(upstream, planned("a", "b"), 1)
    assert works.belong_to(upstream, ["a", "b"])
    assert not works.belong_to(same_name, ["a"])
    assert not works.belong_to(upstream, ["a", "unknown"])
