"""Every flag of a stream's config, and the resulting config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headwater.cli.session import Json
from headwater.cli.stream import config as stream_config
from headwater.errors import SettingsError
from headwater.model.stream import StreamConfig


def made(*flags: str, base: Json | None = None) -> Json:
    """Return the config that these flags make."""
    found: list[Json] = []

    @click.command()
    @stream_config.config_flags
    def command(**given: Any) -> None:
        found.append(stream_config.with_flags(base or {}, given))

    done = CliRunner().invoke(command, list(flags))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize(
    ("flags", "config"),
    [
        ("--subjects a.>,b --subjects c", {"subjects": ["a.>", "b", "c"]}),
        ("--description words", {"description": "words"}),
        ("--storage memory", {"storage": "memory"}),
        ("--compression s2", {"compression": "s2"}),
        ("--replicas 3", {"num_replicas": 3}),
        ("--tag ssd --tag eu --cluster c", {"placement": {"tags": ["ssd", "eu"], "cluster": "c"}}),
        ("--no-ack", {"no_ack": True}),
        ("--ack", {"no_ack": False}),
        ("--retention work", {"retention": "workqueue"}),
        ("--retention workq", {"retention": "workqueue"}),
        ("--retention interest", {"retention": "interest"}),
        ("--discard new", {"discard": "new"}),
        ("--discard-per-subject", {"discard_new_per_subject": True, "discard": "new"}),
        ("--first-sequence 7", {"first_seq": 7}),
        ("--max-age 1d", {"max_age": 86_400 * 10**9}),
        ("--max-age -1", {"max_age": 0}),
        ("--max-bytes 1GiB", {"max_bytes": 1 << 30}),
        ("--max-consumers 2", {"max_consumers": 2}),
        ("--max-msg-size 64KB", {"max_msg_size": 65_536}),
        ("--max-msgs 10", {"max_msgs": 10}),
        ("--max-msgs-per-subject 1", {"max_msgs_per_subject": 1}),
        ("--dupe-window 30s", {"duplicate_window": 30 * 10**9}),
        ("--mirror ORDERS", {"mirror": {"name": "ORDERS"}}),
        ("--allow-batch", {"allow_atomic": True}),
        ("--allow-fast", {"allow_batched": True}),
        ("--allow-counter", {"allow_msg_counter": True}),
        ("--no-allow-rollup", {"allow_rollup_hdrs": False}),
        ("--deny-delete --deny-purge", {"deny_delete": True, "deny_purge": True}),
        ("--no-allow-direct --allow-mirror-direct", {"allow_direct": False, "mirror_direct": True}),
        ("--allow-msg-ttl", {"allow_msg_ttl": True}),
        ("--allow-schedules", {"allow_msg_schedules": True}),
        ("--subject-del-markers-ttl 1m", {"subject_delete_marker_ttl": 60 * 10**9}),
        (
            "--transform-source a.* --transform-destination b.{{wildcard(1)}}",
            {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1)}}"}},
        ),
        ("--metadata a=b --metadata c=d=e", {"metadata": {"a": "b", "c": "d=e"}}),
        (
            "--republish-source a --republish-destination b --republish-headers",
            {"republish": {"src": "a", "dest": "b", "headers_only": True}},
        ),
        (
            "--limit-consumer-inactive 1m --limit-consumer-max-pending 9",
            {"consumer_limits": {"inactive_threshold": 60 * 10**9, "max_ack_pending": 9}},
        ),
        ("--persist-mode async", {"persist_mode": "async"}),
        ("", {}),
    ],
)
def test_each_flag_sets_what_it_says(flags: str, config: Json) -> None:
    assert made(*flags.split()) == config


def test_every_field_of_a_config_has_a_flag() -> None:
    command = stream_config.config_flags(click.command()(lambda **_: None))
    names = {parameter.name for parameter in command.params}
    not_flags = {
        "name": "the argument",
        "sealed": "stream seal",
        "no_ack": "ack",
        "placement": "cluster",
        "subject_transform": "transform_source",
        "republish": "republish_destination",
        "consumer_limits": "limit_consumer_inactive",
    }
    assert {f for f in StreamConfig.__struct_fields__ if f not in names} == set(not_flags)


def test_a_source_may_be_json_and_name_a_domain() -> None:
    config = made("--source", "ORDERS", "--source", '{"name":"T","domain":"spoke-1","filter_subject":"t.>"}')
    assert config["sources"] == [
        {"name": "ORDERS"},
        {"name": "T", "filter_subject": "t.>", "external": {"api": "$JS.spoke-1.API", "deliver": ""}},
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--source", "{"], "--source is not a JSON object"),
        (["--mirror", '{"domain":"x"}'], '--mirror has no "name"'),
        (["--metadata", "x"], "is invalid: pass KEY=VALUE"),
        (["--republish-source", "x"], "missing republish destination"),
    ],
)
def test_a_flag_without_sense_is_refused(flags: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        made(*flags)


def test_flags_change_only_what_they_name() -> None:
    base = {"name": "X", "max_msgs": 5, "metadata": {"a": "1"}, "placement": {"cluster": "c"}}
    assert made("--metadata", "b=2", "--tag", "t", base=base) == {
        "name": "X",
        "max_msgs": 5,
        "metadata": {"a": "1", "b": "2"},
        "placement": {"cluster": "c", "tags": ["t"]},
    }
    assert base["metadata"] == {"a": "1"}


def test_a_file_may_hold_a_config_or_the_whole_info(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"name":"X"}')
    assert stream_config.read_file(path) == {"name": "X"}
    path.write_text('{"config":{"name":"X"},"state":{}}')
    assert stream_config.read_file(path) == {"name": "X"}


@pytest.mark.parametrize("content", ["[]", "{", '"x"'])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(SettingsError, match="is not a stream config"):
        stream_config.read_file(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        stream_config.read_file(tmp_path / "x.json")


def test_a_config_with_an_unknown_field_is_not_valid() -> None:
    stream_config.check({"name": "X", "subjects": ["x"]})
    with pytest.raises(SettingsError, match='unknown field "subject"'):
        stream_config.check({"name": "X", "subject": "x"})
