"""The command line from outside: exit codes, sentences on standard error, help."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from headwater.cli.main import headwater, main
from headwater.errors import Error
from headwater.version import VERSION


def leave(arguments: list[str]) -> int:
    """Run the command line in this process and return its exit code."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(["--version"]) == 0
    assert capsys.readouterr().out == f"headwater {VERSION}\n"


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "headwater", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"headwater {VERSION}\n")


def test_commands_do_not_wait_for_libraries_that_read_tables() -> None:
    listed = "import headwater.cli.main, sys; print({'pyarrow', 'deltalake', 'pyspark'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", listed], text=True) == "set()\n"


def test_an_unknown_flag_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(["serve", "--stoer", "x"]) == 2
    assert "--store" in capsys.readouterr().err


def test_an_unknown_command_is_bad_usage() -> None:
    assert leave(["sevre"]) == 2


def test_a_setting_without_sense_is_bad_usage_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(["settings", "--port", "70000"]) == 2
    assert capsys.readouterr().err == "headwater: port must be between 0 and 65535, not 70000\n"


def test_an_error_is_one_sentence_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def fails() -> None:
        raise Error("the store is locked by process 7")

    monkeypatch.setitem(headwater.commands, "fails", fails)
    assert leave(["fails"]) == 1
    assert capsys.readouterr().err == "headwater: the store is locked by process 7\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def breaks() -> None:
        raise AssertionError

    monkeypatch.setitem(headwater.commands, "breaks", breaks)
    with pytest.raises(AssertionError):
        main(["breaks"])


def test_help_says_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(["--help"]) == 0
    assert "Exit codes:" in capsys.readouterr().out
