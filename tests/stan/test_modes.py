"""Tests of stan.modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.settings import Settings
from headwater.stan.modes import check_modes

CHANNELS = Path("channels.toml")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (Settings(stan="c", stan_clustered=True), "stan_clustered requires journal"),
        (Settings(stan_clustered=True), "stan_clustered requires stan"),
        (Settings(stan="c", stan_node_id="n1"), "stan_node_id requires stan_clustered"),
        (Settings(stan="c", stan_clustered=True, standby=True), "standby and stan_clustered exclude"),
        (
            Settings(stan="c", stan_clustered=True, stan_partitioning=True, stan_channels=CHANNELS),
            "stan_partitioning and stan_clustered exclude",
        ),
        (
            Settings(stan="c", stan_partitioning=True, standby=True, stan_channels=CHANNELS),
            "standby and stan_partitioning exclude",
        ),
        (Settings(stan="c", stan_partitioning=True), "no configured channel"),
    ],
)
def test_what_excludes_each_other_is_refused(settings: Settings, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        check_modes(settings)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(standby=True),
        Settings(stan="c", standby=True),
        Settings(stan="c", stan_clustered=True, stan_node_id="n1", journal="s3://b/j", tables="s3://b/t"),
        Settings(stan="c", stan_partitioning=True, stan_channels=CHANNELS),
    ],
)
def test_one_way_alone_is_taken(settings: Settings) -> None:
    check_modes(settings)
