"""The text of an info is encoded again only after something in it changed."""

from __future__ import annotations

import json
from typing import Any

from headwater.api.info_texts import InfoBasis, InfoTexts
from headwater.model.stream import StreamConfig, StreamState


class Plain:
    """Something that a weak reference can refer to."""


CONFIG = StreamConfig(name="A")


def basis(messages: int = 1, consumers: int = 0, config: StreamConfig = CONFIG) -> InfoBasis:
    """Return what an info depends on."""
    return InfoBasis(config, StreamState(messages=messages), consumers)


def test_an_info_is_encoded_again_only_after_a_change() -> None:
    stream, texts, made = Plain(), InfoTexts(), []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"number": len(made)}

    def number(given: InfoBasis) -> Any:
        return json.loads(bytes(texts.of(stream, given, "now", make)))["number"]  # type: ignore[arg-type]

    assert [number(basis()), number(basis())] == [1, 1]
    assert number(basis(messages=2)) == 2
    assert number(basis(messages=2, consumers=1)) == 3
    assert number(basis(messages=2, consumers=1, config=StreamConfig(name="A", max_msgs=5))) == 4


def test_each_answer_has_its_own_time() -> None:
    stream, texts = Plain(), InfoTexts()
    for now in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"):
        text = texts.of(stream, basis(), now, lambda: {"name": 'a "quoted" name'})  # type: ignore[arg-type]
        assert json.loads(bytes(text)) == {"name": 'a "quoted" name', "ts": now}


def test_a_stream_that_is_gone_leaves_no_text() -> None:
    stream, texts = Plain(), InfoTexts()
    texts.of(stream, basis(), "now", dict)  # type: ignore[arg-type]
    del stream
    assert len(texts._texts) == 0
