"""`headwater pipeline` against an engine whose runner needs no Spark."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import headwater
from pipelines.test_pipelines import Stage, staged

ADDED = ("add", "COPY", "--target", "T", "--subject", "t.x", "--sql", "SELECT data FROM A")


async def invoke(stage: Stage, *arguments: str) -> Result:
    """Return what a command says."""
    command = ["pipeline", *arguments, "-s", stage.door.client_url]
    return await asyncio.to_thread(CliRunner().invoke, headwater, command)


async def test_a_pipeline_is_added_listed_shown_paused_and_removed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert "No Pipelines defined" in (await invoke(stage, "ls")).output
        added = await invoke(stage, *ADDED, "--every", "10s", "--new")
        assert added.exit_code == 0, added.output
        assert "Information for Pipeline COPY" in added.output
        assert "SELECT data FROM A" in added.output
        listed = (await invoke(stage, "ls")).output
        assert "COPY" in listed
        assert "unknown" in listed
        (found,) = json.loads((await invoke(stage, "ls", "--json")).output)
        assert found["config"]["every_s"] == 10.0
        assert found["config"]["start_time"]
        assert "State: paused" in (await invoke(stage, "pause", "COPY")).output
        assert (await invoke(stage, "resume", "COPY")).exit_code == 0
        shown = json.loads((await invoke(stage, "info", "COPY", "--json")).output)
        assert shown["config"]["revision"] == 3
        assert (await invoke(stage, "rm", "COPY", "-f")).exit_code == 0
        gone = await invoke(stage, "info", "COPY")
        assert gone.exit_code != 0
        assert "there is no pipeline" in str(gone.exception)


async def test_sql_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "copy.sql"
    file.write_text("SELECT data\nFROM A")
    async with staged(tmp_path) as stage:
        said = await invoke(stage, "add", "C", "--target", "T", "--subject", "t.x", "--sql-file", str(file))
        assert "SELECT data\nFROM A" in said.output
        checked = await asyncio.to_thread(
            CliRunner().invoke, headwater, ["check", "pipeline", "C", "-s", stage.door.client_url]
        )
        assert checked.output.startswith(("OK C", "WARNING C"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--sql", "x", "--sql-file", __file__), "exclude each other"),
        (("--sql", "x", "--new", "--start-sequence", "3"), "one of --start-sequence"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(arguments: tuple[str, ...], why: str) -> None:
    found = CliRunner().invoke(headwater, ["pipeline", "add", "P", "--target", "T", *arguments])
    assert why in str(found.exception)
