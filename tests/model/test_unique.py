"""Unique names are tokens of subjects, and differ."""

from __future__ import annotations

from headwater.model.unique import unique_id


def test_many_names_are_all_different_and_fit_a_subject() -> None:
    names = {unique_id() for _ in range(10_000)}
    assert len(names) == 10_000
    assert all(len(name) == 22 and name.isascii() and name.isalnum() for name in names)
