"""Row pipelines in a stream's metadata."""

from __future__ import annotations

import json

import pytest

from headwater.errors import SettingsError
from headwater.model.row_pipeline import KEY, LONGEST_SQL, RowPipeline, pipeline_for, pipelines_in, stored


def test_pipelines_are_stored_with_a_version_and_read_again() -> None:
    pipelines = (RowPipeline(source="A", where="x"), RowPipeline(select="y AS data", dead_letters="D"))
    text = stored(pipelines)
    assert json.loads(text)["version"] == 1
    assert pipelines_in({KEY: text}) == pipelines
    assert pipelines_in(None) == pipelines_in({}) == ()


def test_a_source_has_its_own_pipeline_or_that_of_all() -> None:
    own, common = RowPipeline(source="A", where="x"), RowPipeline(where="y")
    assert pipeline_for((own, common), "A") is own
    assert pipeline_for((own, common), "B") is common
    assert pipeline_for((own,), "B") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not a list of pipelines"),
        ("[]", "is not a list of pipelines"),
        ('{"version": 2, "pipelines": []}', "has version 2"),
        ('{"version": 1, "pipelines": [{"were": "x"}]}', "unknown field"),
        ('{"version": 1, "pipelines": [{}]}', "needs a where or a select"),
        (
            '{"version": 1, "pipelines": [{"where": "x", "dead_letters": "a b"}]}',
            "is not the name of a stream",
        ),
        ('{"version": 1, "pipelines": [{"where": "x"}, {"where": "y"}]}', "several pipelines"),
        ('{"version": 1, "pipelines": [{"where": "x", "schema": {"type": "string"}}]}', "JSON Schema"),
        ('{"version": 1, "pipelines": [{"where": "%s"}]}' % ("x" * (LONGEST_SQL + 1)), "characters"),
    ],
)
def test_an_invalid_declaration_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        pipelines_in({KEY: text})
