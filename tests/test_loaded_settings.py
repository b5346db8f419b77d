"""Settings from flags, environment and file: precedence, refusals by name, ranges, seats, hidden secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.loaded_settings import CONFIG_VARIABLE, load
from headwater.settings import MIB, Settings, rows, variable_of


def write_config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "headwater.toml"
    path.write_text(text)
    return path


def test_flags_win_over_the_environment_the_environment_over_the_file_the_file_over_the_default(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path, 'port = 1\nfold_messages = 1\nlog_level = "debug"\n')
    environ = {"HEADWATER_PORT": "2", "HEADWATER_FOLD_MESSAGES": "2"}
    loaded = load({"port": "3"}, environ, config)
    settings = loaded.settings
    assert (settings.port, settings.fold_messages, settings.log_level, settings.log_format) == (
        3,
        2,
        "debug",
        "text",
    )
    assert loaded.origins["port"] == "flag --port"
    assert load(options={"port": "5001"}).origins["port"] == "option port"
    assert loaded.origins["fold_messages"] == "environment variable HEADWATER_FOLD_MESSAGES"
    assert loaded.origins["log_level"] == f"{config}: log_level"
    assert loaded.origins["log_format"] == "default"


def test_the_environment_can_name_the_file_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    named = write_config(tmp_path, "port = 7")
    other = tmp_path / "other.toml"
    other.write_text("port = 8")
    assert load(environ={CONFIG_VARIABLE: str(named)}).settings.port == 7
    assert load(environ={CONFIG_VARIABLE: str(named)}, config=other).settings.port == 8


def test_every_setting_can_be_given_by_its_variable() -> None:
    samples = {"Path": "/x", "int": "4096", "float": "2.5", "str": "word", "bool": "True"}
    for row in rows():
        kind = str(row.type).removesuffix(" | None")
        value = row.metadata["choices"][0] if "choices" in row.metadata else samples[kind]
        value = str(MIB) if row.name.endswith("_bytes") else value
        value = str(row.metadata["low"]) if row.name == "max_replicas" else value
        partners = {"nats_url": "nats://h", "user": "u", "password": "p", "tls_cert": "/c", "tls_key": "/k"}
        if row.name == "password_file":
            del partners["password"]
        value = "nats://h" if row.name == "journal" else value
        if row.name.startswith(("tables_", "journal")) and row.name != "tables_cache_bytes":
            partners |= {"tables": "s3://bucket/tables"}
            partners |= {"tables_access_key_id": "k", "tables_secret_access_key": "s"}
        if row.name.startswith("journal"):
            partners["journal"] = "nats://h"
        environ = {variable_of(r): partners[r.name] for r in rows() if r.name in partners}
        loaded = load(environ={**environ, variable_of(row): value})
        assert str(getattr(loaded.settings, row.name)) == value
        assert loaded.origins[row.name].endswith(variable_of(row))


@pytest.mark.parametrize(
    ("flags", "environ", "text", "said"),
    [
        ({"prot": "1"}, {}, "", "did you mean port?"),
        (
            {},
            {"HEADWATER_FOLD_BITES": "1"},
            "",
            "HEADWATER_FOLD_BITES is not a setting of Headwater; did you mean",
        ),
        ({}, {}, "fold_byte = 1", "did you mean fold_bytes?"),
        ({}, {}, "[fold]\nbytes = 1", "fold is not a setting of Headwater"),
        ({}, {}, "zzz = 1", "zzz is not a setting of Headwater"),
    ],
)
def test_an_unknown_key_is_refused_by_name_with_the_nearest_known_one(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], text: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(flags, environ, write_config(tmp_path, text))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"port": "abc"}, "flag --port must be a whole number, not 'abc'"),
        ({"port": "65536"}, "port must be between 0 and 65535, not 65536"),
        ({"fold_bytes": "64MB"}, "must be a whole number of bytes, such as 67108864 or 64MiB"),
        ({"fold_interval_s": "nan"}, "fold_interval_s must be between"),
        ({"fold_interval_s": "0"}, "fold_interval_s must be between 0.01 and 3600"),
        ({"max_storage_bytes": "-2"}, "max_storage_bytes must be at least -1"),
        ({"log_level": "loud"}, "log_level must be one of debug, info, warning, error"),
        ({"domain": "a.b"}, "domain must be one word"),
        ({"account": "../x"}, "account must be one word"),
        ({"leaf_url": "nats://h:7422"}, "leaf_url requires nats_url"),
        ({"nats_url": "nats://h", "user": "u"}, "user and password belong together"),
        ({"nats_url": "nats://h", "tls_key": "k"}, "tls_cert and tls_key belong together"),
    ],
)
def test_a_value_without_sense_is_refused_in_one_sentence(flags: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(flags)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text", ["port = true", "port = [1]\n", "port = 1.5", "store = 3", 'log_level = ["a"]']
)
def test_a_file_with_the_wrong_type_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="must be"):
        load(config=write_config(tmp_path, text))


def test_a_file_that_is_missing_or_torn_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the settings file"):
        load(config=tmp_path / "absent.toml")
    with pytest.raises(SettingsError, match="is not TOML"):
        load(config=write_config(tmp_path, "port = "))


@pytest.mark.parametrize(("text", "size"), [("1048576", MIB), ("64MiB", 64 * MIB), ("2 GiB", 2048 * MIB)])
def test_a_size_may_carry_a_unit(text: str, size: int) -> None:
    assert load({"fold_bytes": text}).settings.fold_bytes == size


def test_secrets_never_show_in_repr_or_in_an_error() -> None:
    settings = Settings(nats_url="nats://ann:hush1@h:4222", user="ann", password="hush2", token="hush3")
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings)
    assert "nats://(hidden)@h:4222" in repr(settings)
    journaled = Settings(journal="nats://me:pw@a,b/LAKE", tables="s3://b/p")
    assert "nats://(hidden)@a,b/LAKE" in repr(journaled)
    assert settings.password == "hush2"
    assert "hush" not in repr(Settings(nats_url="ann:hush@a:4222,ann:hush@b:4222"))


SEATS = """
nats_url = "nats://hub:4222"
domain = "lake"
[[seat]]
account = "A"
user = "ann"
password = "secret of ann"
[[seat]]
account = "B"
nats_url = "nats://edge:4222"
domain = "edge"
nkey = "/b.nk"
max_storage_bytes = "1MiB"
"""


def test_seats_have_what_they_say_and_else_what_stands_outside(tmp_path: Path) -> None:
    first, second = load(config=write_config(tmp_path, SEATS)).settings.seats
    assert (first.account, first.nats_url, first.domain) == ("A", "nats://hub:4222", "lake")
    assert (first.user, first.password, first.nkey) == ("ann", "secret of ann", None)
    assert (second.account, second.nats_url, second.domain) == ("B", "nats://edge:4222", "edge")
    assert (second.user, second.nkey, second.max_storage_bytes) == (None, Path("/b.nk"), MIB)
    assert (first.streams_folder, second.streams_folder) == ("A", "B")


def test_secrets_of_seats_stay_hidden(tmp_path: Path) -> None:
    assert "secret of ann" not in repr(load(config=write_config(tmp_path, SEATS)).settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[seat]]\nnats_url = "n"', "seat 1 has no account"),
        ('[[seat]]\naccount = "A"', "seat 1 has no nats_url"),
        (
            '[[seat]]\naccount = "A"\nacount = "A"',
            "seat 1: acount is not a setting of Headwater; did you mean account",
        ),
        ('[[seat]]\naccount = "A"\nport = 1', "seat 1: port is not a setting"),
        ('[[seat]]\naccount = "A"\nnats_url = "n"\nuser = "u"', "seat 1: user and password belong together"),
        ('[[seat]]\naccount = "A/.."\nnats_url = "n"', "seat 1: account must be one word"),
        ('user = "u"\n[[seat]]\naccount = "A"', "user must be set in each [[seat]]"),
        ("seat = 3", "seat must be tables"),
        (
            'nats_url = "n"\n[[seat]]\naccount = "A"\n[[seat]]\naccount = "A"',
            "seat 2 has the folder A of another seat",
        ),
        ('nats_url = "n"\n[[seat]]\naccount = "A"\ntls_first = "perhaps"', "tls_first must be true or false"),
    ],
)
def test_a_seat_that_makes_no_sense_is_refused_by_its_number(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(config=write_config(tmp_path, text))
    assert said in str(refused.value)
