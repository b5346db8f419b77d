"""The config of a stream where nothing else is said."""

from __future__ import annotations

from headwater.cli.stream.config import check
from headwater.cli.stream.defaults import DEFAULTS


def test_the_defaults_are_a_valid_config() -> None:
    check({"name": "S", "subjects": ["s"], **DEFAULTS})
