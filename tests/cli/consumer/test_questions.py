"""What is asked about a new consumer, in the nats command's order, and what the answers make."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from headwater.cli.consumer.questions import ask_name, complete
from headwater.model.times import SECOND


def answered(config: dict[str, Any], *typed: str, pull: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return the config for these typed answers, and the questions that were shown."""
    given: list[dict[str, Any]] = []

    @click.command()
    def command() -> None:
        given.append(complete(config, pull=pull))

    done = CliRunner().invoke(command, input="".join(f"{line}\n" for line in typed))
    assert done.exception is None, done.exception
    asked = [part.split(": ")[0].split(" [")[0] for part in done.stderr.split("? ")[1:]]
    return given[0], asked


def test_enter_makes_a_plain_pull_consumer() -> None:
    config, asked = answered({"name": "C"}, *[""] * 9)
    assert config == {
        "name": "C",
        "deliver_subject": "",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "max_deliver": -1,
        "max_ack_pending": 0,
        "headers_only": False,
    }
    assert asked == [
        "Delivery target (empty for Pull Consumers)",
        "Start policy (all, new, last, subject, 1h, msg sequence)",
        "Acknowledgment policy (explicit/all/none)",
        "Replay policy (instant/original)",
        "Filter Stream by subjects (blank for all)",
        "Maximum Allowed Deliveries",
        "Maximum Acknowledgments Pending",
        "Deliver headers only without bodies",
        "Add a Retry Backoff Policy",
    ]


def test_a_push_consumer_is_asked_for_its_own() -> None:
    config, asked = answered({}, "to.me", "group", "last", "", "o", "a b,c", "5s", "y", "y")
    assert config == {
        "deliver_subject": "to.me",
        "deliver_group": "group",
        "deliver_policy": "last",
        "ack_policy": "none",
        "replay_policy": "original",
        "filter_subjects": ["a", "b", "c"],
        "idle_heartbeat": 5 * SECOND,
        "flow_control": True,
        "headers_only": True,
    }
    assert "Maximum Allowed Deliveries" not in asked


def test_what_the_flags_said_is_not_asked_again() -> None:
    config = {
        "deliver_policy": "new", "ack_policy": "none", "replay_policy": "instant", "filter_subject": "a",
        "headers_only": False,
    }  # fmt: skip
    assert answered(config, pull=True) == (config, [])


def test_a_start_without_sense_is_asked_for_again() -> None:
    known = {"ack_policy": "none", "replay_policy": "instant", "filter_subject": "a", "headers_only": False}
    config, asked = answered(known, "soon", "42", pull=True)
    assert (config["deliver_policy"], config["opt_start_seq"], len(asked)) == ("by_start_sequence", 42, 2)


def test_retries_are_asked_for_step_by_step() -> None:
    known = {
        "deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant", "filter_subject": "a",
        "headers_only": False, "max_deliver": -1, "max_ack_pending": 0,
    }  # fmt: skip
    config, _ = answered(known, "y", "linear", "1s", "5s", "4", pull=True)
    assert config["backoff"] == [1 * SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]
    assert "backoff" not in answered(known, "y", "none", pull=True)[0]


@pytest.mark.parametrize("typed", ["WORK\n", "a.b\nWORK\n"])
def test_a_name_without_sense_is_asked_for_again(typed: str) -> None:
    given: list[str] = []

    @click.command()
    def command() -> None:
        given.append(ask_name())

    assert CliRunner().invoke(command, input=typed).exception is None
    assert given == ["WORK"]
