"""Answers to flow-control requests find their consumer by its name in the subject."""

from __future__ import annotations

import pytest

from delivery.deliveries import Desk
from headwater.delivery.flow_answers import FlowAnswers


async def test_each_answer_goes_to_the_consumer_it_names(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, bytes, bytes]] = []
    monkeypatch.setattr(desk.consumers.acks, "flow_answered", lambda *answer: taken.append(answer))
    answers = FlowAnswers(desk.consumers.acks)
    answers.items += [
        (b"$JS.FC.S.one.abcd", b"", b"headers", b""),
        (b"$JS.FC.S.two.efgh", b"", b"", b""),
        (b"$JS.FC.S", b"", b"", b""),
    ]
    answers.flush()
    assert taken == [("one", b"$JS.FC.S.one.abcd", b"headers"), ("two", b"$JS.FC.S.two.efgh", b"")]
    assert answers.items == []


async def test_an_answer_for_an_unknown_consumer_is_ignored(desk: Desk) -> None:
    answers = FlowAnswers(desk.consumers.acks)
    answers.items.append((b"$JS.FC.S.\xff.abcd", b"", b"", b""))
    answers.flush()
