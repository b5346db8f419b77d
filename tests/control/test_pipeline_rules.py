"""Which row pipelines a stream may declare."""

from __future__ import annotations

import pytest

from headwater.control.pipeline_rules import check_pipelines
from headwater.errors import ApiError
from headwater.model.row_pipeline import KEY, RowPipeline, stored
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource


def piped(name: str, *origins: str, source: str = "", dead: str = "") -> StreamConfig:
    metadata = {KEY: stored([RowPipeline(source=source, where="true", dead_letters=dead)])}
    sources = tuple(StreamSource(name=each) for each in origins)
    return StreamConfig(name=name, sources=sources, metadata=metadata)


def existing(*configs: StreamConfig) -> dict[str, StreamConfig]:
    return {config.name: config for config in configs}


def test_a_pipeline_of_a_source_with_dead_letters_is_allowed() -> None:
    check_pipelines(piped("T", "O", source="O", dead="D"), existing(StreamConfig(name="D")))
    check_pipelines(StreamConfig(name="T"), {})


@pytest.mark.parametrize(
    ("config", "others", "reason"),
    [
        (StreamConfig(name="T", metadata={KEY: "?"}), (), "is not a list"),
        (piped("T"), (), "has no source or mirror"),
        (piped("T", "O", source="P"), (), "has no source or mirror 'P'"),
        (piped("T", "O", dead="D"), (), "does not exist: create it first"),
        (piped("T", "O", dead="T"), (StreamConfig(name="T"),), "does not exist"),
        (piped("T", "O", dead="M"), (StreamConfig(name="M", mirror=StreamSource(name="X")),), "is a mirror"),
        (piped("T", "D", dead="D"), (StreamConfig(name="D"),), "would never end"),
        (
            piped("T", "O", dead="D"),
            (StreamConfig(name="O", sources=(StreamSource(name="D"),)), StreamConfig(name="D")),
            "would never end",
        ),
    ],
)
def test_others_are_refused(config: StreamConfig, others: tuple[StreamConfig, ...], reason: str) -> None:
    with pytest.raises(ApiError, match=reason):
        check_pipelines(config, existing(*others))
