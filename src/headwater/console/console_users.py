"""Users of the console: a file of names and salted hashes of passwords, one `NAME:HASH` a line."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import SettingsError

KIND = "scrypt"
COST, BLOCK, LANES = 1 << 15, 8, 1
"""One check takes 32 MiB and about a tenth of a second."""
MOST_COST, MOST_BLOCK, MOST_LANES = 1 << 17, 16, 4
"""A file may not make a check more expensive than this."""
SALT_BYTES = 16
HASH_BYTES = 32
MOST_NAME = 100
MOST_PASSWORD = 1024


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """The salted hash of one password, and what it costs to compute."""

    salt: bytes
    digest: bytes
    cost: int = COST
    block: int = BLOCK
    lanes: int = LANES

    def fits(self, password: str) -> bool:
        """Return whether this is the password; takes equally long for every password."""
        found = hashed(password[:MOST_PASSWORD], self.salt, self.cost, self.block, self.lanes)
        return hmac.compare_digest(found, self.digest) and len(password) <= MOST_PASSWORD

    def __str__(self) -> str:
        """Return the hash as a file holds it."""
        parts = [KIND, str(self.cost), str(self.block), str(self.lanes)]
        return "$".join([*parts, *(base64.b64encode(raw).decode() for raw in (self.salt, self.digest))])


def hashed(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    """Return what scrypt makes of a password."""
    room = (1 << 20) + 256 * block * (cost + lanes)
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost,
        r=block,
        p=lanes,
        maxmem=room,
        dklen=HASH_BYTES,
    )


def password_hash(password: str) -> PasswordHash:
    """Return the hash of a new password with a salt of its own."""
    salt = secrets.token_bytes(SALT_BYTES)
    return PasswordHash(salt, hashed(password, salt, COST, BLOCK, LANES))


def user_line(name: str, password: str) -> str:
    """Return the line of a user for the file."""
    problem = _problem_of(name)
    if not problem and not 0 < len(password) <= MOST_PASSWORD:
        problem = f"a password has 1 to {MOST_PASSWORD} characters"
    if problem:
        raise SettingsError(problem)
    return f"{name}:{password_hash(password)}"


class ConsoleUsers:
    """The users that may log in with a password."""

    def __init__(self, users: Mapping[str, PasswordHash]) -> None:
        self._users = dict(users)
        self._unknown = PasswordHash(secrets.token_bytes(SALT_BYTES), secrets.token_bytes(HASH_BYTES))
        """Compared for a name that does not exist, so that the time shows no names."""

    def __len__(self) -> int:
        """Return how many users there are."""
        return len(self._users)

    def admits(self, name: str, password: str) -> bool:
        """Return whether a user has this password; slow on purpose, so it runs on a thread."""
        return self._users.get(name, self._unknown).fits(password) and name in self._users


def read_users(path: Path) -> ConsoleUsers:
    """Return the users of a file; blank lines and lines with # are left out."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None
    users: dict[str, PasswordHash] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.strip().partition(":")
            found = parsed_hash(rest)
            if found is None or _problem_of(name) or name in users:
                raise SettingsError(
                    f"line {number} of {path} is not a user: `headwater console --print-user NAME` prints one"
                )
            users[name] = found
    if not users:
        raise SettingsError(
            f"{path} has no user: add the line that `headwater console --print-user NAME` prints"
        )
    return ConsoleUsers(users)


def parsed_hash(text: str) -> PasswordHash | None:
    """Return the hash that a file holds; None for anything else."""
    try:
        kind, cost, block, lanes, salt, digest = text.split("$")
        found = PasswordHash(
            base64.b64decode(salt, validate=True),
            base64.b64decode(digest, validate=True),
            int(cost),
            int(block),
            int(lanes),
        )
    except (ValueError, binascii.Error):
        return None
    is_power = found.cost > 1 and not found.cost & (found.cost - 1)
    is_bounded = found.cost <= MOST_COST and 0 < found.block <= MOST_BLOCK and 0 < found.lanes <= MOST_LANES
    is_whole = len(found.salt) >= SALT_BYTES and len(found.digest) == HASH_BYTES
    return found if kind == KIND and is_power and is_bounded and is_whole else None


def _problem_of(name: str) -> str:
    if 0 < len(name) <= MOST_NAME and name.isprintable() and ":" not in name and name == name.strip():
        return "" if not name.startswith("#") else "the name of a user does not begin with #"
    return f"the name of a user has 1 to {MOST_NAME} printable characters and no colon"
