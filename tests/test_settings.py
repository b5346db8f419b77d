"""Settings: a value that is checked when it is made, and never changes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.settings import MIB, Settings, flag_of, rows, variable_of


def test_defaults_make_a_valid_value() -> None:
    settings = Settings()
    assert (settings.port, settings.account, settings.fold_bytes) == (4222, "$G", 64 * MIB)


def test_a_settings_value_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": 70_000}, "port must be between"),
        ({"log_level": "loud"}, "log_level must be one of debug, info"),
        ({"user": "me"}, "user requires nats_url"),
        ({"nats_url": "nats://h", "user": "me"}, "user and password belong together"),
        ({"journal": "nats://h/LAKE"}, "journal requires tables"),
        ({"journal_lenient": True}, "journal_creds and journal_lenient require journal"),
        ({"journal": "http://h", "tables": "s3://b/p"}, "journal: the address must begin with nats"),
        ({"nats_url": "nats://h", "tls_cert": Path("c")}, "tls_cert and tls_key belong together"),
    ],
)
def test_what_makes_no_sense_cannot_be_made(given: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings(**given)  # type: ignore[arg-type]


def test_every_setting_has_a_flag_and_a_variable_of_its_own_and_a_sentence() -> None:
    settings = list(rows())
    assert (
        len({flag_of(row) for row in settings})
        == len({variable_of(row) for row in settings})
        == len(settings)
    )
    assert [row.name for row in settings if not row.metadata["doc"].endswith(".")] == []
