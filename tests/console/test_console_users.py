"""Users of the console: their file, and the salted hashes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.console.console_users import (
    MOST_PASSWORD,
    PasswordHash,
    hashed,
    parsed_hash,
    read_users,
    user_line,
)
from headwater.errors import SettingsError

SALT = b"0123456789abcdef"
CHEAP = PasswordHash(SALT, hashed("secret", SALT, 2, 1, 1), 2, 1, 1)


def test_a_printed_line_is_read_back_and_holds_no_password(tmp_path: Path) -> None:
    line = user_line("ada", "correct horse")
    assert "correct" not in line
    path = tmp_path / "users"
    path.write_text(f"# who may look\n\n{line}\nbob:{CHEAP}\n")
    users = read_users(path)
    assert len(users) == 2
    assert users.admits("ada", "correct horse")
    assert users.admits("bob", "secret")
    for name, password in (("ada", "secret"), ("bob", ""), ("eve", "secret"), ("", "")):
        assert not users.admits(name, password)


def test_the_same_password_has_another_hash_for_each_user() -> None:
    assert user_line("ada", "x").partition(":")[2] != user_line("bob", "x").partition(":")[2]


def test_a_longer_password_is_not_the_one_that_it_begins_with() -> None:
    most = "x" * MOST_PASSWORD
    long = PasswordHash(SALT, hashed(most, SALT, 2, 1, 1), 2, 1, 1)
    assert long.fits(most)
    assert not long.fits(most + "y")


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("", "x"),
        ("a:b", "x"),
        (" a", "x"),
        ("#a", "x"),
        ("a\n", "x"),
        ("n" * 101, "x"),
        ("a", ""),
        ("a", "x" * 1025),
    ],
)
def test_names_and_passwords_that_a_line_cannot_hold_are_refused(name: str, password: str) -> None:
    with pytest.raises(SettingsError):
        user_line(name, password)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        str(CHEAP).replace("scrypt", "plain"),
        str(CHEAP).replace("$2$", "$3$"),
        str(CHEAP).replace("$2$", "$1073741824$"),
        str(CHEAP).replace("$2$1$1$", "$2$1$99$"),
        str(CHEAP) + "x",
        str(PasswordHash(b"short", CHEAP.digest, 2, 1, 1)),
        str(PasswordHash(SALT, b"short", 2, 1, 1)),
    ],
)
def test_what_is_no_hash_or_too_expensive_is_refused(text: str, tmp_path: Path) -> None:
    assert parsed_hash(str(CHEAP)) == CHEAP
    assert parsed_hash(text) is None
    path = tmp_path / "users"
    path.write_text(f"ada:{text}\n")
    with pytest.raises(SettingsError, match=r"line 1 of .* is not a user"):
        read_users(path)


def test_a_file_without_users_or_with_one_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users"
    for text, said in (("", "has no user"), (f"a:{CHEAP}\na:{CHEAP}\n", "line 2")):
        path.write_text(text)
        with pytest.raises(SettingsError, match=said):
            read_users(path)
    with pytest.raises(SettingsError, match="cannot read"):
        read_users(tmp_path / "none")
