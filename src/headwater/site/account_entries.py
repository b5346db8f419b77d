"""The accounts of a site file: users with passwords, nkeys or credentials, and the users of links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nkeys

from headwater.model.names import valid_asset_name
from headwater.site.document import Entry, optional
from headwater.site.topology import Account, Json, User

BCRYPT = ("$2a$", "$2b$", "$2y$")
_NKEY_LENGTH = 56


def read_accounts(entry: Entry, operator: Path | None) -> tuple[Account, ...]:
    """Return the accounts of a mapping from names to accounts."""
    accounts = tuple(_account(name, inner, operator) for name, inner in entry.entries().items())
    if sum(account.is_system for account in accounts) > 1:
        raise entry.wrong("only one account can be the system account")
    return accounts


def check_name(entry: Entry, name: str, what: str) -> str:
    """Return a name that is valid as a subject token and as a directory name."""
    if not valid_asset_name(name):
        raise entry.wrong(f"{name!r} cannot be the name of {what}: no spaces, dots, wildcards or slashes")
    return name


def plain_password(password: str) -> str:
    """Return a plain password, or "" for a bcrypt hash."""
    return "" if password.startswith(BCRYPT) else password


def read_login(entry: Entry, held: dict[str, Entry], account: Account) -> User:
    """Return the user of a link: given here, or a user of the account."""
    secret = optional(held, "password", Entry.text, "") or optional(held, "password_file", _first_line, "")
    seed, creds = (held[name].existing() if name in held else None for name in ("seed", "creds"))
    name = optional(held, "user", Entry.text, "")
    if secret or seed or creds:
        return User(name=name, secret=secret, seed=seed, creds=creds)
    known = account.user(name) if name else next((u for u in account.users if u.can_log_in), None)
    if known is None or not known.can_log_in:
        who = f"the user {name!r}" if name else "any user"
        raise entry.wrong(
            f"the secret of {who} of {account.name} is unknown: add password, password_file, seed or creds"
        )
    return known


def _account(name: str, entry: Entry, operator: Path | None) -> Account:
    held = entry.fields("system", "users", "jwt", "exports", "imports")
    check_name(entry, name, "an account")
    jwt = held["jwt"].existing() if "jwt" in held else None
    if (jwt is None) != (operator is None):
        raise entry.wrong("with an operator every account needs a jwt; without one none may have it")
    users: list[User] = []
    for inner in held["users"].items() if "users" in held else ():
        user = _user_by_jwt(inner) if jwt else _user(inner)
        if user.name in (other.name for other in users):
            raise inner.wrong(f"the user {user.name!r} is listed twice in the account {name}")
        users.append(user)
    return Account(
        name=name,
        users=tuple(users),
        is_system=optional(held, "system", Entry.truth, False),
        jwt=jwt,
        exports=_objects(held, "exports"),
        imports=_objects(held, "imports"),
    )


def _objects(held: dict[str, Entry], name: str) -> tuple[Json, ...]:
    """Return a list of objects that nats-server checks."""
    return tuple({**each.entries()} and each.json() for each in held[name].items()) if name in held else ()


def _user_by_jwt(entry: Entry) -> User:
    held = entry.fields("user", "creds")
    if "creds" not in held:
        raise entry.wrong("a user of an account with a jwt needs creds")
    creds = held["creds"].existing()
    return User(name=optional(held, "user", Entry.text, creds.stem), creds=creds)


def _user(entry: Entry) -> User:
    held = entry.fields("user", "password", "password_file", "nkey", "seed", "creds", "permissions", "leaf")
    if "creds" in held:
        raise held["creds"].wrong("creds need an operator and the account's jwt")
    permissions = _permissions(held["permissions"]) if "permissions" in held else None
    leaf = optional(held, "leaf", Entry.text, "")
    if leaf and permissions:
        raise held["leaf"].wrong("the permissions of a link's user are generated: leave out permissions")
    if "nkey" in held or "seed" in held:
        return replace(_nkey_user(entry, held, permissions), leaf=leaf)
    if "user" not in held or "password" not in held:
        raise entry.wrong("a user needs a user and a password, or an nkey")
    password = held["password"].text()
    return User(
        name=held["user"].text(),
        password=password,
        secret=optional(held, "password_file", _first_line, plain_password(password)),
        permissions=permissions,
        leaf=leaf,
    )


def _nkey_user(entry: Entry, held: dict[str, Entry], permissions: Json | None) -> User:
    seed = held["seed"].existing() if "seed" in held else None
    public = optional(held, "nkey", Entry.text, "")
    if seed is not None:
        try:
            found = nkeys.from_seed(seed.read_bytes().strip()).public_key.decode()
        except Exception:  # the library raises different errors for invalid seeds
            raise held["seed"].wrong(f"{seed} does not contain an nkey seed") from None
        if public and public != found:
            raise held["nkey"].wrong(f"{seed} contains the seed of another nkey")
        public = found
    if not public.startswith("U") or len(public) != _NKEY_LENGTH:
        raise entry.wrong(f"the nkey of a user has {_NKEY_LENGTH} characters and starts with U")
    name = optional(held, "user", Entry.text, public)
    return User(name=name, nkey=public, seed=seed, permissions=permissions)


def _permissions(entry: Entry) -> Json:
    """Return permissions in nats-server's form: allow and deny for publish and subscribe."""
    held = entry.fields("publish", "subscribe", "allow_responses")
    for way in ("publish", "subscribe"):
        if way in held and isinstance(held[way].value, dict):
            held[way].fields("allow", "deny")
    return dict(entry.json())


def _first_line(entry: Entry) -> str:
    return entry.existing().read_text().split("\n", 1)[0].strip()
