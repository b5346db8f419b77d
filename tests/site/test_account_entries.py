"""Accounts and users of a site file: passwords, nkeys, credentials, permissions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.site.account_entries import plain_password, read_accounts, read_login
from headwater.site.document import read_document
from headwater.site.topology import Account
from identities import new_key, public, write_seed

HASH = "$2a$04$vJFYv7pJSPdZUMnn4C4JWuvSnJVDDkfVUuGmLxCTkRySLiRPdwPPG"


def accounts(directory: Path, value: Any, operator: Path | None = None) -> tuple[Account, ...]:
    """Return the accounts of a document with this in it."""
    (directory / "a.yaml").write_text(json.dumps(value))
    return read_accounts(read_document(directory / "a.yaml"), operator)


def test_a_user_has_a_password_and_a_hash_is_not_one(tmp_path: Path) -> None:
    users = [{"user": "a", "password": "open"}, {"user": "b", "password": HASH}]
    (account,) = accounts(tmp_path, {"A": {"users": users}})
    plain, hashed = account.users
    assert (plain.secret, plain.can_log_in) == ("open", True)
    assert (hashed.password, hashed.secret, hashed.can_log_in) == (HASH, "", False)
    assert plain_password(HASH) == ""


def test_the_password_behind_a_hash_can_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("open\n")
    (account,) = accounts(
        tmp_path, {"A": {"users": [{"user": "b", "password": HASH, "password_file": "secret"}]}}
    )
    assert (account.users[0].secret, account.users[0].password) == ("open", HASH)
    assert "open" not in repr(account)


def test_an_nkey_comes_from_its_seed_or_stands_by_itself(tmp_path: Path) -> None:
    pair = new_key()
    write_seed(tmp_path / "u.nk", pair)
    users = [{"user": "a", "seed": "u.nk"}, {"nkey": public(new_key())}]
    (account,) = accounts(tmp_path, {"A": {"users": users}})
    assert (account.users[0].nkey, account.users[0].can_log_in) == (public(pair), True)
    assert not account.users[1].can_log_in


def test_permissions_exports_and_imports_are_handed_on_as_they_are(tmp_path: Path) -> None:
    value: dict[str, Any] = {
        "users": [{"user": "a", "password": "p", "permissions": {"publish": {"deny": ["x"]}}}],
        "exports": [{"service": "$JS.API.>"}],
        "imports": [{"stream": {"account": "B", "subject": "b.>"}}],
    }
    (account,) = accounts(tmp_path, {"A": value})
    assert account.users[0].permissions == {"publish": {"deny": ["x"]}}
    assert (account.exports, account.imports) == (tuple(value["exports"]), tuple(value["imports"]))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"A": {"users": [{"user": "a"}]}}, "a user and a password, or an nkey"),
        ({"A": {"users": [{"user": "a", "pass": "x"}]}}, "did you mean password?"),
        ({"A": {"users": [{"nkey": "Uabc"}]}}, "56 characters"),
        ({"A": {"users": [{"seed": "bad.nk"}]}}, "does not contain an nkey seed"),
        ({"A": {"users": [{"user": "a", "creds": "bad.nk"}]}}, "creds need an operator"),
        ({"A": {"users": [{"user": "a", "password": "p"}] * 2}}, "is listed twice"),
        ({"A": {"jwt": "bad.nk"}}, "with an operator every account needs a jwt"),
        ({"A": {"system": True}, "B": {"system": True}}, "only one account can be the system account"),
        (
            {"A": {"users": [{"user": "a", "password": "p", "leaf": "x", "permissions": {"publish": "y"}}]}},
            "leave out permissions",
        ),
        ({"A b": {}}, "cannot be the name of an account"),
        (
            {"A": {"users": [{"user": "a", "password": "p", "permissions": {"publish": {"denny": []}}}]}},
            "did you mean deny?",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, value: Any, said: str) -> None:
    (tmp_path / "bad.nk").write_text("no seed")
    with pytest.raises(SettingsError) as wrong:
        accounts(tmp_path, value)
    assert said in str(wrong.value)
    assert "a.yaml:1" in str(wrong.value)


def test_with_an_operator_users_have_credentials(tmp_path: Path) -> None:
    for name in ("a.jwt", "u.creds"):
        (tmp_path / name).write_text("x")
    (account,) = accounts(tmp_path, {"A": {"jwt": "a.jwt", "users": [{"creds": "u.creds"}]}}, tmp_path / "o")
    assert (account.users[0].name, account.users[0].creds) == ("u", tmp_path / "u.creds")
    with pytest.raises(SettingsError, match="a user of an account with a jwt needs creds"):
        accounts(tmp_path, {"A": {"jwt": "a.jwt", "users": [{"user": "u"}]}}, tmp_path / "o")


def test_a_link_logs_in_as_a_user_whose_secret_is_known(tmp_path: Path) -> None:
    users = [{"user": "b", "password": HASH}, {"user": "a", "password": "open"}]
    (account,) = accounts(tmp_path, {"A": {"users": users}})
    (tmp_path / "l.yaml").write_text('{"user": "b"}')
    entry = read_document(tmp_path / "l.yaml")
    with pytest.raises(SettingsError, match="the secret of the user 'b' of A is unknown"):
        read_login(entry, entry.entries(), account)
    assert read_login(entry, {}, account).name == "a"
    (tmp_path / "l.yaml").write_text('{"user": "b", "password": "said here"}')
    entry = read_document(tmp_path / "l.yaml")
    assert read_login(entry, entry.entries(), account).secret == "said here"
