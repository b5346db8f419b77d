"""A run has one seed and as many rounds as asked for."""

from __future__ import annotations

import pytest

from rounds import SEED_VARIABLE, choose_seed, rounds


def test_a_seed_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "")
    monkeypatch.delenv(SEED_VARIABLE)
    assert choose_seed() == choose_seed()


def test_the_environment_names_the_seed_and_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    monkeypatch.setenv("TEST_ROUNDS", "60")
    assert (choose_seed(), rounds(3)) == (7, 60)


def test_without_the_environment_rounds_are_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_ROUNDS", raising=False)
    assert rounds(3) == 3
