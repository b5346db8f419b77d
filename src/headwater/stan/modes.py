"""Ways of serving NATS Streaming with several engines, and which of them exclude each other."""

from __future__ import annotations

from headwater.errors import SettingsError
from headwater.settings import Settings


def check_modes(settings: Settings) -> None:
    """Refuse settings that ask for two ways at once, or for one that there is not."""
    chosen = [
        name
        for name in ("standby", "stan_partitioning", "stan_clustered")
        if getattr(settings, name) and (name != "standby" or settings.stan or settings.stan_clustered)
    ]
    if len(chosen) > 1:
        raise SettingsError(
            f"{' and '.join(chosen)} exclude each other: fault tolerance, partitioning and clustering are "
            "three ways of having several engines, choose one"
        )
    if settings.stan_clustered:
        raise SettingsError("stan_clustered: engines keep no quorum; let another one wait with standby")
    if settings.stan_partitioning and settings.stan_channels is None:
        raise SettingsError("stan: no configured channel: stan_partitioning needs stan_channels")
