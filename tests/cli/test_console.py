"""`headwater console`: which sites it shows, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headwater.cli.client import Caller
from headwater.cli.console import _addresses, _sites, _token
from headwater.cli.main import headwater
from headwater.console.console_users import read_users
from headwater.errors import SettingsError


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Save two contexts, one of them selected."""
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    for name in ("east", "west"):
        (folder / f"{name}.json").write_text(json.dumps({"url": f"nats://{name}:4222"}))
    (tmp_path / "nats" / "context.txt").write_text("west")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return folder


def test_each_context_is_a_site_with_its_own_monitoring(contexts: Path) -> None:
    sites = _sites(Caller({}, False), ("east", "west"), False, ("west=http://w:1", "http://e:2"))
    assert [(site.name, site.connection.server, site.monitoring_url) for site in sites] == [
        ("east", "nats://east:4222", "http://e:2"),
        ("west", "nats://west:4222", "http://w:1"),
    ]


def test_every_context_can_be_shown(contexts: Path) -> None:
    assert [site.name for site in _sites(Caller({}, False), (), True, ())] == ["east", "west"]


def test_without_contexts_the_flags_or_the_selected_one_count(contexts: Path) -> None:
    [site] = _sites(Caller({}, False), (), False, ("http://w:1",))
    assert (site.name, site.connection.server, site.monitoring_url) == (
        "west",
        "nats://west:4222",
        "http://w:1",
    )
    [other] = _sites(Caller({"no_context": True, "domain": "lake"}, False), (), False, ())
    assert (other.name, other.connection.prefix) == ("lake", "$JS.lake.API")


def test_a_monitoring_address_of_no_site_is_refused() -> None:
    with pytest.raises(SettingsError, match='"north" is not among the contexts'):
        _addresses(("north=http://n:1",), ["east"])


def test_the_token_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" secret\n")
    assert _token(file, {}) == "secret"
    assert _token(None, {"HEADWATER_CONSOLE_TOKEN": "other"}) == "other"
    file.write_text("\n")
    with pytest.raises(SettingsError, match="is empty"):
        _token(file, {})


def test_the_command_refuses_to_listen_in_the_clear() -> None:
    with pytest.raises(SettingsError, match="in the clear"):
        headwater.main(["console", "--host", "0.0.0.0"], standalone_mode=False)
    assert isinstance(headwater.commands["console"], click.Command)


def test_a_line_for_the_users_file_is_printed_and_read_back(tmp_path: Path) -> None:
    run = CliRunner().invoke(headwater, ["console", "--print-user", "ada"], input="pass\npass\n")
    assert run.exit_code == 0
    path = tmp_path / "users"
    path.write_text(run.stdout)
    assert read_users(path).admits("ada", "pass")
