"""Modes of serving NATS Streaming with several engines, which exclude each other."""

from __future__ import annotations

from headwater.errors import SettingsError
from headwater.settings import Settings


def check_modes(settings: Settings) -> None:
    """Refuse settings that combine modes, or that select a mode that does not exist."""
    chosen = [
        name
        for name in ("standby", "stan_partitioning", "stan_clustered")
        if getattr(settings, name) and (name != "standby" or settings.stan or settings.stan_clustered)
    ]
    if len(chosen) > 1:
        raise SettingsError(
            f"{' and '.join(chosen)} exclude each other: choose one of fault tolerance, partitioning and "
            "clustering"
        )
    if settings.stan_clustered and not (settings.stan or any(seat.stan for seat in settings.seats)):
        raise SettingsError("stan_clustered requires stan: pass the cluster id with --stan ID")
    if settings.stan_clustered and settings.journal is None:
        raise SettingsError(
            "stan_clustered requires journal: the engines of a cluster share their state through it. On one "
            "shared folder, use standby instead"
        )
    if settings.stan_node_id is not None and not settings.stan_clustered:
        raise SettingsError("stan_node_id requires stan_clustered")
    if settings.stan_partitioning and settings.stan_channels is None:
        raise SettingsError("stan: no configured channel: stan_partitioning needs stan_channels")
