"""Tests of monitor.recent_log."""

from __future__ import annotations

import logging

import pytest

from headwater.monitor.recent_log import MOST_LETTERS, RecentLog, without_secrets


@pytest.fixture
def log() -> logging.Logger:
    found = logging.Logger("headwater.probe")
    found.propagate = False
    return found


def test_warnings_are_kept_newest_first_and_the_oldest_are_dropped(log: logging.Logger) -> None:
    kept = RecentLog(logging.WARNING, 2)
    log.addHandler(kept)
    log.info("fine")
    for number in range(3):
        log.warning("disk %d is slow", number)
    found = kept.listed()
    assert [each["message"] for each in found] == ["disk 2 is slow", "disk 1 is slow"]
    assert found[0]["level"] == "warning"
    assert found[0]["logger"] == "headwater.probe"
    assert kept.dropped == 1


def test_a_message_that_repeats_is_one_entry_with_its_count(log: logging.Logger) -> None:
    kept = RecentLog(logging.WARNING)
    log.addHandler(kept)
    for _ in range(5):
        log.error("no space left")
    log.error("another")
    assert [(each["message"], each["times"]) for each in kept.listed()] == [
        ("another", 1),
        ("no space left", 5),
    ]


def test_an_exception_is_named_without_its_traceback(log: logging.Logger) -> None:
    kept = RecentLog(logging.WARNING)
    log.addHandler(kept)
    try:
        raise OSError("read failed")
    except OSError:
        log.exception("cannot open %s", "ORDERS")
    assert [each["message"] for each in kept.listed()] == ["cannot open ORDERS: OSError: read failed"]


def test_a_record_that_cannot_be_formatted_does_not_raise(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    kept = RecentLog(logging.WARNING)
    log.addHandler(kept)
    log.warning("%d", "no number")
    assert kept.listed() == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot connect to nats://user:hunter2@host:4222: refused", "hunter2"),
        ("cannot connect to nats://s3cr3tt0ken@host:4222", "s3cr3tt0ken"),
        ("password=hunter2 is wrong", "hunter2"),
        ('the settings {"tables_secret_access_key": "wJalrXUt"}', "wJalrXUt"),
        ("token: abcdef", "abcdef"),
        ("seed SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY", "SUACSSL3UAHU"),
        ("jwt eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5In0.eyJqdGkiOiJ.c2lnbmF0dXJl", "eyJqdGki"),
    ],
)
def test_secrets_are_left_out(text: str, secret: str) -> None:
    assert secret in text
    shown = without_secrets(text)
    assert secret not in shown
    assert "…" in shown


@pytest.mark.parametrize("part", ["a", "password", "//", "eyJ", "//a", "token=", "_token"])
def test_a_huge_message_is_cut_before_it_is_searched(part: str) -> None:
    assert len(without_secrets(part * 1_000_000)) <= MOST_LETTERS


def test_addresses_without_secrets_stay_and_long_messages_are_cut() -> None:
    assert without_secrets("cannot reach nats://host:4222/x") == "cannot reach nats://host:4222/x"
    assert len(without_secrets("x" * 5000)) == MOST_LETTERS


def test_lines_of_a_level_are_listed_with_their_fields_and_without_secrets(log: logging.Logger) -> None:
    kept = RecentLog(most=4)
    log.addHandler(kept)
    log.debug("first")
    log.debug("asked")
    log.info("folded", extra={"stream": "ORDERS", "token": "abc"})
    log.warning("slow")
    log.info("connected to nats://me:pw@host")
    assert [each["message"] for each in kept.listed()] == [
        "connected to nats://…@host",
        "slow",
        "folded stream=ORDERS token=…",
        "asked",
    ]
    assert [each["level"] for each in kept.listed(logging.INFO, 2)] == ["info", "warning"]
    assert [each["message"] for each in kept.listed(logging.WARNING)] == ["slow"]
    assert kept.dropped == 1
