"""The checkpoint of a pipeline: a folder that Spark writes, with a query id that we choose.

    <checkpoints>/<id>/headwater.json  version, and when the target stream was created
                      /spark/metadata  the id of the query, under which the target records batches
                      /spark/offsets/  Spark's: what each batch reads, written before the batch runs
                      /spark/commits/  Spark's: which batches are complete
                      /spark/state/    Spark's: the state of windows, joins and aggregations

1. `prepare` creates the folder, with the id, before the query's first start.
2. Spark writes `offsets/N` and runs batch N, the target stores it with (id, N) in one change, and Spark
   writes `commits/N`.

A crash between any two of these leaves a batch that Spark runs again and the target recognizes. If the
target has a batch that `offsets/` lacks, the checkpoint was lost or is older than the target. Then the query
must not run: the target would take new batches for those it has.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Error
from headwater.wire.pipeline import Pipeline, ReadOffset

VERSION = 1
_ABOUT = "headwater.json"


class CheckpointError(Error):
    """A checkpoint is missing, damaged, or does not fit its streams; the text says what to do."""


@dataclass(frozen=True)
class PipelineCheckpoint:
    """The folder of one pipeline."""

    path: Path

    @classmethod
    def of(cls, checkpoints: str | Path, pipeline: Pipeline) -> PipelineCheckpoint:
        """Return the checkpoint of a pipeline."""
        return cls(Path(checkpoints) / pipeline.id)

    @property
    def location(self) -> Path:
        """Return the folder that is Spark's."""
        return self.path / "spark"

    def prepare(self, query_id: str, target_created: str, last_stored: int) -> None:
        """Return once a query may continue from here; raise if it would skip or repeat messages.

        `last_stored` is the last batch of the query that the target has, -1 without one.
        """
        created = self._target()
        if created is None:
            if last_stored >= 0:
                raise CheckpointError(
                    f"the checkpoint {self.path} is missing, but the target has batches up to {last_stored} "
                    f"of this pipeline: restore the folder. {START_AGAIN}"
                )
            return self._create(query_id, target_created)
        if created != target_created:
            raise CheckpointError(f"the target was deleted and re-created: {START_AGAIN}")
        planned = self.last_planned()
        if last_stored > planned:
            raise CheckpointError(
                f"the target has batches up to {last_stored} of this pipeline, but the checkpoint "
                f"{self.path} ends at {planned}: restore the folder. {START_AGAIN}"
            )

    def last_planned(self) -> int:
        """Return the last batch whose offsets are written, -1 without one."""
        return _last_of(self.location / "offsets")

    def offsets(self) -> tuple[ReadOffset, ...]:
        """Return what was read up to the last complete batch; empty if there is none or it is unreadable."""
        last = _last_of(self.location / "commits")
        try:
            text = (self.location / "offsets" / str(last)).read_text()
            found = [json.loads(line) for line in text.splitlines()[2:] if line != "-"]
            return tuple(ReadOffset(int(each["seq"]), str(each["created"])) for each in found)
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def remove(self) -> None:
        """Remove the folder, under another name first: what is half removed is no checkpoint."""
        trash = self.path.with_name(f".trash-{self.path.name}")
        try:
            self.path.rename(trash)
        except FileNotFoundError:
            pass
        shutil.rmtree(trash, ignore_errors=True)

    def _target(self) -> str | None:
        """Return when the target was created as the folder says; None if there is no folder."""
        try:
            about = json.loads((self.path / _ABOUT).read_text())
            version, created = about["version"], str(about["target_created"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"the checkpoint {self.path} is damaged: {error}. {START_AGAIN}") from None
        if version != VERSION:
            raise CheckpointError(f"the checkpoint {self.path} has version {version}, this is {VERSION}")
        return created

    def _create(self, query_id: str, target_created: str) -> None:
        """Create the folder; the file that makes it a checkpoint is last."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.location.mkdir(parents=True)
        (self.location / "metadata").write_text(json.dumps({"id": query_id}))
        about = json.dumps({"version": VERSION, "target_created": target_created})
        with open(self.path / f"{_ABOUT}.new", "w") as file:
            file.write(about)
            file.flush()
            os.fsync(file.fileno())
        os.rename(self.path / f"{_ABOUT}.new", self.path / _ABOUT)


START_AGAIN = (
    "To start again without it, remove the pipeline and add it, with --start-time or --start-sequence where "
    "it shall begin"
)


def _last_of(folder: Path) -> int:
    try:
        names = os.listdir(folder)
    except OSError:
        return -1
    return max((int(name) for name in names if name.isdecimal()), default=-1)
