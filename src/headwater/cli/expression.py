"""The flag --expression: a condition over a stream's or consumer's info, such as `state.messages > 10`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import SettingsError
from headwater.model.condition import Condition, ConditionError


class Expression:
    """A condition that is parsed once and evaluated for many streams or consumers."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._condition = Condition(text)
        except ConditionError as error:
            raise SettingsError(
                f"--expression {text!r} {error}: write a condition such as state.messages > 10"
            ) from None

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Return whether the condition is true of these values."""
        try:
            return self._condition.holds(names)
        except ConditionError as error:
            raise SettingsError(f"--expression {self.text!r} {error}") from None
