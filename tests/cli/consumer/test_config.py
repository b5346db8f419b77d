"""A consumer's config from flags: what each sets, and what is refused before any server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from headwater.cli.consumer.config import (
    check,
    config_flags,
    read_file,
    unreserved,
    with_defaults,
    with_flags,
)
from headwater.errors import SettingsError
from headwater.model.times import SECOND

NOW = 1_767_366_245_000_000_000


def made(*arguments: str, like: dict[str, Any] | None = None, new: bool = True) -> dict[str, Any]:
    """Return the config that these flags make."""
    found: dict[str, Any] = {}

    def keep(**flags: Any) -> None:
        found.update(with_flags(like or {}, flags, lambda: NOW))

    command = click.command()(config_flags(keep, new=new))
    command.main(list(arguments), standalone_mode=False)
    return found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("--ack all --replay original", {"ack_policy": "all", "replay_policy": "original"}),
        ("--wait 30s --max-deliver 5", {"ack_wait": 30 * SECOND, "max_deliver": 5}),
        ("--max-pending -1 --max-waiting 7", {"max_ack_pending": -1, "max_waiting": 7}),
        ("--target to.me --deliver-group g", {"deliver_subject": "to.me", "deliver_group": "g"}),
        ("--heartbeat 5s --flow-control", {"idle_heartbeat": 5 * SECOND, "flow_control": True}),
        ("--no-headers-only --memory", {"headers_only": False, "mem_storage": True}),
        ("--max-pull-batch 9 --max-pull-expire 1m", {"max_batch": 9, "max_expires": 60 * SECOND}),
        ("--max-pull-bytes 1KB --bps 8000", {"max_bytes": 1024, "rate_limit_bps": 8000}),
        ("--inactive-threshold 1d", {"inactive_threshold": 86400 * SECOND}),
        ("--filter a", {"filter_subject": "a"}),
        ("--filter a,b --filter c", {"filter_subjects": ["a", "b", "c"]}),
        ("--metadata a=b --metadata c:d", {"metadata": {"a": "b", "c": "d"}}),
        ("--sample 30", {"sample_freq": "30"}),
        ("--deliver all", {"deliver_policy": "all"}),
        ("--deliver next", {"deliver_policy": "new"}),
        ("--deliver subject", {"deliver_policy": "last_per_subject"}),
        ("--deliver 42", {"deliver_policy": "by_start_sequence", "opt_start_seq": 42}),
        ("--deliver 1h", {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-02T14:04:05Z"}),
        ("--pause 1m", {"pause_until": "2026-01-02T15:05:05Z"}),
        ("--pause 2026-01-31", {"pause_until": "2026-01-31T00:00:00Z"}),
        (
            "--pinned-groups a,b --pinned-ttl 1m",
            {
                "priority_policy": "pinned_client",
                "priority_groups": ["a", "b"],
                "priority_timeout": 60 * SECOND,
            },
        ),
        ("--overflow-groups a", {"priority_policy": "overflow", "priority_groups": ["a"]}),
        (
            "--backoff linear --backoff-steps 3 --backoff-min 1s --backoff-max 4s",
            {"backoff": [SECOND, 2 * SECOND, 3 * SECOND]},
        ),
    ],
)
def test_each_flag_sets_its_part_of_the_config(arguments: str, expected: dict[str, Any]) -> None:
    assert made(*arguments.split()) == expected
    check({"name": "C", **expected})


def test_flags_change_only_what_they_name() -> None:
    like = {
        "filter_subjects": ["a", "b"], "deliver_policy": "by_start_sequence", "opt_start_seq": 7,
        "metadata": {"a": "b"}, "backoff": [1, 2], "deliver_subject": "x",
    }  # fmt: skip
    changed = made(
        "--filter", "c", "--deliver", "new", "--metadata", "k=v", "--backoff", "none", "--pull", like=like
    )
    assert changed == {"filter_subject": "c", "deliver_policy": "new", "metadata": {"a": "b", "k": "v"}}
    assert made("--description", "d", like=like, new=False) == {**like, "description": "d"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--deliver soon", "--deliver 'soon' is invalid"),
        ("--pause soon", "'soon' is neither a time"),
        ("--metadata word", "is invalid: pass KEY=VALUE"),
        ("--pinned-groups a --overflow-groups b", "one kind of priority groups, not pinned and overflow"),
        ("--backoff linear --backoff-min 2m --backoff-max 1m", "must be shorter"),
        ("--backoff linear --max-deliver 10", "must be more than the 10 steps"),
    ],
)
def test_flags_without_sense_are_refused_in_one_sentence(arguments: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        made(*arguments.split())


def test_flags_that_are_fixed_once_it_exists_are_not_offered_for_editing() -> None:
    with pytest.raises(click.NoSuchOption):
        made("--ack", "all", new=False)


def test_defaults_depend_on_whether_it_pushes() -> None:
    assert with_defaults({})["ack_policy"] == "explicit"
    assert with_defaults({"deliver_subject": "x"})["ack_policy"] == "none"
    assert with_defaults({"ack_policy": "all"})["ack_policy"] == "all"
    assert with_defaults({"deliver_policy": "last_per_subject"})["filter_subject"] == ">"
    assert "filter_subject" not in with_defaults(
        {"deliver_policy": "last_per_subject", "filter_subjects": ["a", "b"]}
    )


def test_a_file_may_hold_a_config_or_an_info(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"name": "C", "metadata": {"_nats.level": "1", "a": "b"}}')
    assert read_file(file) == {"name": "C", "metadata": {"a": "b"}}
    file.write_text('{"stream_name": "S", "config": {"name": "C", "metadata": {"_nats.level": "1"}}}')
    assert read_file(file) == {"name": "C"}
    file.write_text("[]")
    with pytest.raises(SettingsError, match="is not a consumer config"):
        read_file(file)
    with pytest.raises(SettingsError, match="no such file"):
        read_file(tmp_path / "none.json")


def test_the_servers_own_notes_are_no_part_of_what_was_declared() -> None:
    assert unreserved({"name": "C", "metadata": {"_nats.ver": "2"}}) == {"name": "C"}


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(SettingsError, match="invalid config: "):
        check({"name": 7})
