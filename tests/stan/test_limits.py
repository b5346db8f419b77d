"""Tests of stan.limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.settings import Settings
from headwater.stan.limits import ChannelLimits, StoreLimits, described, parse_channels, read_channels


def test_the_defaults_are_those_of_nats_streaming() -> None:
    limits = StoreLimits.from_settings(Settings())
    assert limits.max_channels == 100
    assert limits.of("foo") == ChannelLimits(1_000_000, 1_024_000_000, 0, 1000, 0)


def test_the_narrowest_pattern_that_says_something_wins() -> None:
    channels = parse_channels(
        {
            "foo.bar": {"max_msgs": 1},
            "foo.>": {"max_msgs": 3, "max_bytes": 30, "max_age_s": 1.5},
            ">": {"max_subs": 5},
            "foo.*": {"max_msgs": 2, "max_bytes": 0},
        }
    )
    limits = StoreLimits(channels=channels)
    assert limits.of("foo.bar") == ChannelLimits(1, 0, 1_500_000_000, 5, 0)
    assert limits.of("foo.baz").max_msgs == 2
    assert limits.of("foo.a.b") == ChannelLimits(3, 30, 1_500_000_000, 5, 0)
    assert limits.of("bar") == ChannelLimits(max_subscriptions=5)


def test_a_channel_is_listed_if_a_pattern_takes_it() -> None:
    limits = StoreLimits(channels=parse_channels({"foo.*": {}, "bar": {}}))
    assert [limits.lists(c) for c in ("foo.a", "bar", "foo", "foo.a.b")] == [True, True, False, False]


@pytest.mark.parametrize(
    "declared", [{"a..b": {}}, {"a": 1}, {"a": {"max": 1}}, {"a": {"max_msgs": -1}}, {"a": {"max_msgs": "x"}}]
)
def test_invalid_limits_are_refused(declared: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="stan_channels"):
        parse_channels(declared)


def test_limits_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    file.write_text('["foo.>"]\nmax_msgs = 10\n[bar]\n')
    assert read_channels(file) == {"foo.>": {"max_msgs": 10}, "bar": {}}
    file.write_text("[a]\n[b]\n")
    with pytest.raises(SettingsError, match="more than stan_max_channels"):
        StoreLimits.from_settings(Settings(stan_channels=file, stan_max_channels=1))


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    with pytest.raises(SettingsError, match="cannot read"):
        read_channels(file)
    file.write_text("[")
    with pytest.raises(SettingsError, match="cannot read"):
        read_channels(file)


def test_other_limits_are_described_otherwise() -> None:
    assert described(ChannelLimits()) == described(ChannelLimits())
    assert described(ChannelLimits()) != described(ChannelLimits(max_age=1))
