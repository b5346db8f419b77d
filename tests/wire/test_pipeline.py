"""Pipelines and their exchange as JSON."""

from __future__ import annotations

import pytest

from headwater.wire.pipeline import (
    VERSION,
    Pipeline,
    PipelineRequest,
    PipelineRequestError,
    RunnerOrders,
    decoded,
    encoded,
    run_subject,
)

PIPELINE = Pipeline(name="P", id="i", created_ns=1, target="T", sql="SELECT 1", inputs=("A",))


def test_a_declaration_survives_its_json() -> None:
    assert decoded(Pipeline, encoded(PIPELINE)) == PIPELINE
    orders = RunnerOrders(version=VERSION, revision=3, pipelines=(PIPELINE,))
    assert decoded(RunnerOrders, encoded(orders)) == orders


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"target": 1}', b'{"target": "T", "id": "x"}'])
def test_a_request_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(PipelineRequestError, match="cannot be read"):
        decoded(PipelineRequest, body)


def test_a_declaration_of_a_later_version_is_refused() -> None:
    later = encoded(PIPELINE).replace(b'"version":1', b'"version":2')
    with pytest.raises(PipelineRequestError, match="version 2"):
        decoded(Pipeline, later)


def test_a_seat_has_a_subject_of_its_own() -> None:
    assert run_subject("S") == "$HEADWATER.S.PIPELINES.RUN"
    assert run_subject("S", "A") == "$HEADWATER.S.PIPELINES.RUN.A"
