"""`headwater pipeline run`: what it asks for, and what it says when it cannot run."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.cli.main import main
from headwater.replication import handover
from headwater.settings import Settings
from headwater.spark.pipelines import runner
from headwater.spark.pipelines.runner import RunnerOptions


def left_with(arguments: list[str]) -> int:
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as left:
        main(["pipeline", "run", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_runner_without_an_engine_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with([]) == 2
    assert "--engine ID=FILE" in capsys.readouterr().err
    assert left_with(["--engine", "id1"]) == 2
    assert "ID=FILE" in capsys.readouterr().err


def test_a_runner_has_its_own_secret_and_the_credentials_of_each_seat(tmp_path: Path) -> None:
    settings = Settings(nats_url="nats://127.0.0.1:1", user="u", password="p", account="ACME")
    file, seen = tmp_path / "pipelines.toml", []
    handover.write(file, settings, handover.pipelines_secret("hush"), has_tables=False)
    assert "hush" not in file.read_text()

    async def note(options: RunnerOptions) -> None:
        seen.append(options)

    with patch.object(runner, "run_pipelines", note):
        assert (
            left_with(["--engine", f"S={file}", "--pipeline-functions", "a:b, c:d", "--master", "local"]) == 0
        )
    (account,) = seen[0].accounts
    assert seen[0].functions == ("a:b", "c:d")
    assert seen[0].master == "local"
    assert (account.folder, account.config, account.engine.store_id) == ("ACME", file, "S")
    assert account.engine.secret() == handover.pipelines_secret("hush").encode()
