"""The text of a config is encoded once, and again after the config changed."""

from __future__ import annotations

import json

import msgspec

from headwater.api.config_texts import ConfigTexts
from headwater.model.stream import StreamConfig


class Configured:
    """Only what is read of a stream."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = config


def test_the_text_is_kept_until_the_config_changes() -> None:
    stream, texts = Configured(StreamConfig(name="A", subjects=("a",))), ConfigTexts()
    first = texts.of(stream)  # type: ignore[arg-type]
    assert texts.of(stream) is first  # type: ignore[arg-type]
    stream.config = StreamConfig(name="A", subjects=("b",))
    assert json.loads(bytes(texts.of(stream)))["subjects"] == ["b"]  # type: ignore[arg-type]


def test_the_text_is_inserted_as_it_is() -> None:
    stream = Configured(StreamConfig(name="A", metadata={"note": 'a "quoted" <word>'}))
    found = ConfigTexts().of(stream)  # type: ignore[arg-type]
    assert json.loads(msgspec.json.encode({"config": found}))["config"]["metadata"] == {
        "note": 'a "quoted" <word>'
    }


def test_a_stream_that_is_gone_leaves_no_text() -> None:
    stream, texts = Configured(StreamConfig(name="A")), ConfigTexts()
    texts.of(stream)  # type: ignore[arg-type]
    del stream
    assert len(texts._texts) == 0
