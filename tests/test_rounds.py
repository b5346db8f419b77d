"""A run has one seed and as many rounds as asked for."""

from __future__ import annotations

import pytest

from rounds import SEED_VARIABLE, choose_seed, rounds, some_operations


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


HISTORY = ["open a"] * 10 + ["write a"] * 50 + ["sync a", "remove a"]


def test_some_operations_of_each_kind_are_broken_and_the_seed_decides_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TEST_ROUNDS", raising=False)
    monkeypatch.setenv(SEED_VARIABLE, "7")
    chosen = some_operations(HISTORY, "cut", after=10)
    assert chosen == some_operations(HISTORY, "cut", after=10) == sorted(set(chosen))
    assert {HISTORY[nth - 1] for nth in chosen} == {"write a", "sync a", "remove a"}
    assert 6 <= len(chosen) <= 9


def test_every_operation_is_broken_in_some_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_ROUNDS", raising=False)
    broken = set()
    for seed in range(100):
        monkeypatch.setenv(SEED_VARIABLE, str(seed))
        broken |= set(some_operations(HISTORY, "cut"))
    assert broken == set(range(1, len(HISTORY) + 1))


def test_all_operations_are_broken_when_rounds_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_ROUNDS", "1")
    assert some_operations(HISTORY, "cut", after=60) == [61, 62]
