"""`--where`, `--select` and `--dead-letters` become metadata of the stream."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.stream.pipeline_flags import with_pipelines
from headwater.errors import SettingsError
from headwater.model.row_pipeline import KEY, RowPipeline, pipelines_in, stored

NONE: dict[str, Any] = {"where": None, "select": None, "dead_letters": None}


def piped(config: dict[str, Any], **flags: str) -> tuple[RowPipeline, ...]:
    return pipelines_in(with_pipelines(config, {**NONE, **flags})["metadata"])


def test_flags_are_the_pipeline_of_the_only_source_or_of_all() -> None:
    one = piped({"sources": [{"name": "O"}]}, where="a", select="b", dead_letters="D")
    assert one == (RowPipeline(source="O", where="a", select="b", dead_letters="D"),)
    assert piped({"mirror": {"name": "M"}}, where="a") == (RowPipeline(source="M", where="a"),)
    assert piped({"sources": [{"name": "O"}, {"name": "P"}]}, where="a") == (RowPipeline(where="a"),)


def test_a_source_may_have_its_own_pipeline_in_its_json() -> None:
    config = {"sources": [{"name": "O", "where": "a", "filter_subject": "x"}, {"name": "P"}]}
    changed = with_pipelines(config, NONE)
    assert changed["sources"] == [{"name": "O", "filter_subject": "x"}, {"name": "P"}]
    assert pipelines_in(changed["metadata"]) == (RowPipeline(source="O", where="a"),)


def test_an_edit_changes_what_it_names_and_an_empty_text_removes_it() -> None:
    metadata = {KEY: stored([RowPipeline(source="O", where="a", dead_letters="D")]), "team": "x"}
    config = {"sources": [{"name": "O"}], "metadata": metadata}
    assert piped(config, where="b") == (RowPipeline(source="O", where="b", dead_letters="D"),)
    assert with_pipelines(config, NONE)["metadata"] == metadata
    assert with_pipelines(config, {**NONE, "where": ""})["metadata"] == {"team": "x"}


def test_flags_without_a_source_and_odd_fields_are_refused() -> None:
    with pytest.raises(SettingsError, match="need a source or a mirror"):
        with_pipelines({}, {**NONE, "where": "a"})
    with pytest.raises(SettingsError, match="invalid pipeline"):
        with_pipelines({"sources": [{"name": "O", "where": 5}]}, NONE)
