"""The checkpoint of a pipeline: created once, compared with its target, refused if it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.spark.pipelines.checkpoint import CheckpointError, PipelineCheckpoint
from headwater.wire.pipeline import Pipeline, ReadOffset

PIPELINE = Pipeline(name="P", id="0f", created_ns=1, target="T", sql="SELECT 1", inputs=("A",))


@pytest.fixture
def checkpoint(tmp_path: Path) -> PipelineCheckpoint:
    return PipelineCheckpoint.of(tmp_path, PIPELINE)


def batch(checkpoint: PipelineCheckpoint, number: int, *, committed: bool, seq: int = 5) -> None:
    """Write what Spark writes for a batch."""
    offsets = checkpoint.location / "offsets"
    offsets.mkdir(exist_ok=True)
    offset = json.dumps({"seq": seq, "created": "t"})
    (offsets / str(number)).write_text(f"v1\n{{}}\n{offset}\n-")
    (offsets / f".{number}.crc").write_text("")
    if committed:
        (checkpoint.location / "commits").mkdir(exist_ok=True)
        (checkpoint.location / "commits" / str(number)).write_text("v1\n{}")


def test_a_new_checkpoint_has_the_id_of_the_pipeline(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    assert json.loads((checkpoint.location / "metadata").read_text()) == {"id": "0f"}
    assert checkpoint.last_planned() == -1
    assert checkpoint.offsets() == ()
    checkpoint.prepare("0f", "created", -1)


def test_a_batch_that_the_target_has_and_spark_did_not_commit_is_run_again(
    checkpoint: PipelineCheckpoint,
) -> None:
    checkpoint.prepare("0f", "created", -1)
    batch(checkpoint, 0, committed=True)
    batch(checkpoint, 1, committed=False, seq=9)
    for last_stored in (-1, 0, 1):
        checkpoint.prepare("0f", "created", last_stored)
    assert checkpoint.last_planned() == 1
    assert checkpoint.offsets() == (ReadOffset(5, "t"),)


def test_a_checkpoint_that_is_older_than_its_target_is_refused(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    batch(checkpoint, 0, committed=True)
    with pytest.raises(CheckpointError, match=r"batches up to 2 .* ends at 0: restore the folder"):
        checkpoint.prepare("0f", "created", 2)


def test_a_missing_checkpoint_of_a_pipeline_that_has_written_is_refused(
    checkpoint: PipelineCheckpoint,
) -> None:
    with pytest.raises(CheckpointError, match=r"is missing, .* remove the pipeline and add it"):
        checkpoint.prepare("0f", "created", 0)
    assert not checkpoint.path.exists()


def test_a_recreated_target_is_refused(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    with pytest.raises(CheckpointError, match="deleted and re-created"):
        checkpoint.prepare("0f", "later", -1)


@pytest.mark.parametrize(("text", "why"), [("", "damaged"), ("{}", "damaged"), ("[]", "damaged")])
def test_a_damaged_checkpoint_is_refused(checkpoint: PipelineCheckpoint, text: str, why: str) -> None:
    checkpoint.prepare("0f", "created", -1)
    (checkpoint.path / "headwater.json").write_text(text)
    with pytest.raises(CheckpointError, match=why):
        checkpoint.prepare("0f", "created", -1)


def test_a_checkpoint_of_a_later_version_is_refused(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    (checkpoint.path / "headwater.json").write_text('{"version": 2, "target_created": "created"}')
    with pytest.raises(CheckpointError, match="version 2"):
        checkpoint.prepare("0f", "created", -1)


def test_a_crash_while_it_is_created_leaves_nothing_in_the_way(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.location.mkdir(parents=True)
    (checkpoint.location / "metadata").write_text("torn")
    checkpoint.prepare("0f", "created", -1)
    assert json.loads((checkpoint.location / "metadata").read_text()) == {"id": "0f"}


def test_unreadable_offsets_are_unknown(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    batch(checkpoint, 0, committed=True)
    (checkpoint.location / "offsets" / "0").write_text("v1\n{}\nnot json")
    assert checkpoint.offsets() == ()


def test_removing_is_repeatable(checkpoint: PipelineCheckpoint) -> None:
    checkpoint.prepare("0f", "created", -1)
    checkpoint.remove()
    checkpoint.remove()
    assert list(checkpoint.path.parent.iterdir()) == []
