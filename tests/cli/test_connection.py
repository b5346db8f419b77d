"""Where a command connects: which of flag, variable, context and default wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.connection import load_context, seconds, settle, taken_from
from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import SettingsError


def nothing(name: str | None) -> dict[str, Any]:
    """Return an empty context."""
    return {}


def hub(name: str | None) -> dict[str, Any]:
    """Return a context that names a server, a user and a prefix."""
    return {
        "url": "nats://hub:4222",
        "user": "acc",
        "password": "secret",
        "jetstream_api_prefix": "$JS.hub.API",
    }


def test_without_anything_the_local_server_is_meant() -> None:
    assert settle({}, nothing) == ConnectionSettings()


def test_a_flag_wins_over_the_context_and_the_rest_comes_from_it() -> None:
    settled = settle({"server": "nats://spoke"}, hub)
    assert (settled.server, settled.user, settled.prefix) == ("nats://spoke", "acc", "$JS.hub.API")


def test_a_domain_that_is_given_wins_over_the_prefix_of_the_context() -> None:
    assert settle({"domain": "spoke-1"}, hub).prefix == "$JS.spoke-1.API"


def test_a_prefix_that_is_given_wins_over_a_domain() -> None:
    assert settle({"domain": "a", "api_prefix": "import.from.hub."}, nothing).prefix == "import.from.hub"


def test_the_context_can_be_passed_over() -> None:
    assert settle({"no_context": True}, hub) == ConnectionSettings()


@pytest.mark.parametrize("domain", ["a.b", "*", "a b"])
def test_a_domain_of_several_words_is_refused(domain: str) -> None:
    with pytest.raises(SettingsError, match="one token"):
        settle({"domain": domain}, nothing)


@pytest.mark.parametrize(("text", "value"), [("500ms", 0.5), ("5s", 5.0), ("1m", 60.0), ("2", 2.0)])
def test_timeouts_are_durations_or_seconds(text: str, value: float) -> None:
    assert seconds(text, "--timeout") == value


@pytest.mark.parametrize("text", ["", "soon", "0", "-1s"])
def test_a_timeout_without_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is invalid: pass a duration"):
        seconds(text, "--timeout")


def test_only_the_flags_that_were_given_are_taken() -> None:
    flags = {"server": None, "domain": "hub", "stream": "ORDERS"}
    assert taken_from(flags) == {"domain": "hub"}
    assert flags == {"stream": "ORDERS"}


def test_contexts_come_from_the_files_of_the_nats_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "hub.json").write_text(json.dumps({"url": "nats://hub", "jetstream_domain": "hub"}))
    assert settle({"context": "hub"}, load_context).prefix == "$JS.hub.API"
    assert settle({}, load_context).server == ConnectionSettings().server
    (tmp_path / "nats" / "context.txt").write_text("hub")
    assert settle({}, load_context).server == "nats://hub"


def test_a_short_wait_for_answers_leaves_time_to_connect() -> None:
    assert ConnectionSettings(server="nats://h", timeout=0.1).options()["connect_timeout"] == 5
    assert ConnectionSettings(server="nats://h", timeout=60).options()["connect_timeout"] == 60
