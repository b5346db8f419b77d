"""Durations and sizes of a config file may have units."""

from __future__ import annotations

import pytest

from headwater.cli.config_units import without_units
from headwater.errors import SettingsError
from headwater.model.times import SECOND


def test_text_with_a_unit_becomes_the_number_of_the_api() -> None:
    given = {
        "name": "30d",
        "max_age": "30d",
        "max_bytes": "1GiB",
        "max_msg_size": -1,
        "duplicate_window": 120 * SECOND,
        "backoff": ["1s", 5 * SECOND],
        "consumer_limits": {"inactive_threshold": "5m", "max_ack_pending": 10},
    }
    assert without_units(given) == {
        "name": "30d",
        "max_age": 30 * 86400 * SECOND,
        "max_bytes": 2**30,
        "max_msg_size": -1,
        "duplicate_window": 120 * SECOND,
        "backoff": [SECOND, 5 * SECOND],
        "consumer_limits": {"inactive_threshold": 300 * SECOND, "max_ack_pending": 10},
    }


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"max_age": "30x"},
            "max_age is '30x': write nanoseconds as a number, or text such as 30s, 12h or 7d",
        ),
        ({"max_bytes": "much"}, "max_bytes is 'much': write bytes as a number, or text such as 64KB or 1GiB"),
        ({"backoff": ["1s", "soon"]}, "backoff is 'soon': write nanoseconds"),
    ],
)
def test_a_mistake_names_the_field_and_what_is_accepted(config: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        without_units(config)
