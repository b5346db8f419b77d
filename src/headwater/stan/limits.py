"""The limits of channels: for all of them, and more specific ones by name or pattern."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headwater.errors import SettingsError
from headwater.model.subject import is_literal, is_subset, matches
from headwater.model.times import SECOND
from headwater.settings import Settings
from headwater.stan.names import valid_pattern


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of one channel; 0 means no limit. Times are in nanoseconds."""

    max_msgs: int = 1_000_000
    max_bytes: int = 1_024_000_000
    max_age: int = 0
    max_subscriptions: int = 1000
    max_inactivity: int = 0


_KEYS = {
    "max_msgs": ("max_msgs", 1),
    "max_bytes": ("max_bytes", 1),
    "max_age_s": ("max_age", SECOND),
    "max_subs": ("max_subscriptions", 1),
    "max_inactivity_s": ("max_inactivity", SECOND),
}
"""The key of a limit in the file, its field, and its unit."""

Overrides = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of the store, of each channel, and of named channels."""

    max_channels: int = 100
    each: ChannelLimits = ChannelLimits()
    channels: Mapping[str, Overrides] = field(default_factory=dict)
    """Overrides by name or pattern, widest patterns first."""

    def of(self, channel: str) -> ChannelLimits:
        """Return the limits of a channel; for each limit, the narrowest pattern that sets it wins."""
        limits = self.each
        for pattern, overrides in self.channels.items():
            if matches(channel, pattern):
                limits = replace(limits, **overrides)
        return limits

    def of_pattern(self, pattern: str) -> ChannelLimits:
        """Return the limits of a pattern's channels, wider patterns applied first."""
        limits = self.each
        for wider, overrides in self.channels.items():
            if is_subset(pattern, wider):
                limits = replace(limits, **overrides)
        return limits

    def lists(self, channel: str) -> bool:
        """Return whether a name or pattern matches a channel."""
        return any(matches(channel, pattern) for pattern in self.channels)

    @classmethod
    def from_settings(cls, settings: Settings) -> StoreLimits:
        """Return the limits in the settings and in the file of channels."""
        each = ChannelLimits(
            settings.stan_max_msgs,
            settings.stan_max_bytes,
            int(settings.stan_max_age_s * SECOND),
            settings.stan_max_subs,
            int(settings.stan_max_inactivity_s * SECOND),
        )
        channels = read_channels(settings.stan_channels) if settings.stan_channels else {}
        literal = sum(map(is_literal, channels))
        if 0 < settings.stan_max_channels < literal:
            raise SettingsError(
                f"stan_channels names {literal} channels, more than stan_max_channels allows "
                f"({settings.stan_max_channels})"
            )
        return cls(settings.stan_max_channels, each, channels)


def read_channels(path: Path) -> dict[str, Overrides]:
    """Return the limits by channel that a TOML file declares, widest patterns first."""
    try:
        declared = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"stan_channels: cannot read {path} as TOML: {error}") from None
    return parse_channels(declared)


def parse_channels(declared: Mapping[str, Any]) -> dict[str, Overrides]:
    """Return checked limits by channel, widest patterns first, so that narrower ones override them."""
    return {name: _overrides(name, declared[name]) for name in sorted(declared, key=_narrowness)}


def _narrowness(pattern: str) -> list[int]:
    """Return a sort key that puts a pattern before narrower ones."""
    return [{">": 0, "*": 1}.get(token, 2) for token in pattern.split(".")]


def _overrides(name: str, declared: Any) -> Overrides:
    if not valid_pattern(name):
        raise SettingsError(f"stan_channels: {name!r} is not a valid channel name or pattern")
    if not isinstance(declared, dict):
        raise SettingsError(f'stan_channels: {name} is not a table: write ["{name}"] with its limits below')
    overrides = {}
    for key, value in declared.items():
        if key not in _KEYS:
            raise SettingsError(f"stan_channels: unknown limit {key} of {name}: use {', '.join(_KEYS)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise SettingsError(f"stan_channels: {key} of {name} must be a number, 0 for no limit")
        limit, unit = _KEYS[key]
        overrides[limit] = int(value * unit)
    return overrides


def described(limits: ChannelLimits) -> str:
    """Return limits as a line of text that is equal for equal limits."""
    return " ".join(f"{f.name}={getattr(limits, f.name)}" for f in fields(limits))
