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
    if settings.stan_clustered:
        raise SettingsError("stan_clustered is not supported: run a second engine with standby instead")
    if settings.stan_partitioning and settings.stan_channels is None:
        raise SettingsError("stan: no configured channel: stan_partitioning needs stan_channels")
