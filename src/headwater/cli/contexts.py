"""Connections with a name: the context files that the `nats` command reads and writes as well.

`$XDG_CONFIG_HOME/nats` (or `~/.config/nats`) holds `context/<name>.json`, the selected name in
`context.txt` and the one before it in `previous-context.txt`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from headwater.errors import Error

DEFAULT_URL = "nats://127.0.0.1:4222"
CREDENTIAL_FIELDS = ("user", "creds", "nkey", "nsc")
SECRET_FIELDS = ("password", "token", "user_jwt", "user_seed")
FILE_FIELDS = ("creds", "nkey", "cert", "key", "ca")


class SavedContext(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server, fields by their names in the file; empty where nothing is said."""

    description: str = ""
    url: str = ""
    socks_proxy: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    creds: str = ""
    nkey: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    nsc: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    jetstream_event_prefix: str = ""
    inbox_prefix: str = ""
    user_jwt: str = ""
    user_seed: str = ""
    color_scheme: str = ""
    tls_first: bool = False
    windows_cert_store: str = ""
    windows_cert_match_by: str = ""
    windows_cert_match: str = ""
    windows_ca_certs_match: list[str] | None = None

    @property
    def servers(self) -> list[str]:
        """Return the addresses to try."""
        return [url.strip() for url in (self.url or DEFAULT_URL).split(",") if url.strip()]

    def path_of(self, field: str) -> str:
        """Return the file that a field names, `~` and (for credentials) variables put in; "" when unset."""
        text: str = getattr(self, field)
        return os.path.expanduser(os.path.expandvars(text) if field == "creds" else text)

    def updated(self, given: Mapping[str, Any]) -> SavedContext:
        """Return this context with those fields that say something."""
        return msgspec.structs.replace(self, **{name: value for name, value in given.items() if value})


class ContextFolder:
    """All contexts of a user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of_user(cls, environ: Mapping[str, str] | None = None) -> ContextFolder:
        """Return the folder that the `nats` command uses as well."""
        given = (os.environ if environ is None else environ).get("XDG_CONFIG_HOME")
        return cls((Path(given) if given else Path.home() / ".config") / "nats")

    def path(self, name: str) -> Path:
        """Return the file of a context."""
        if not name or ".." in name or "/" in name or os.sep in name:
            raise Error(f'"{name}" cannot name a context: use letters, digits, "-" and "_"')
        return self.directory / "context" / f"{name}.json"

    def names(self) -> list[str]:
        """Return the names of all contexts, sorted."""
        files = self.directory.joinpath("context").glob("*.json")
        return sorted(file.stem for file in files if file.is_file() and file.stat().st_size)

    def known(self, name: str) -> bool:
        """Return whether there is such a context."""
        return self.path(name).exists()

    def load(self, name: str) -> SavedContext:
        """Return a context from its file."""
        held = {key: value for key, value in self._read(name).items() if value is not None}
        try:
            return msgspec.convert(held, SavedContext)
        except msgspec.ValidationError as error:
            raise Error(f"{self.path(name)} does not hold a context: {error}") from None

    def save(self, name: str, context: SavedContext) -> None:
        """Write the file of a context; keys that this version does not know stay in it."""
        kinds = [field for field in CREDENTIAL_FIELDS if getattr(context, field)]
        if len(kinds) > 1:
            raise Error(f"a context holds one kind of credentials, not {' and '.join(kinds)}: leave one out")
        path = self.path(name)
        held = self._read(name) if path.exists() else {}
        text = msgspec.json.encode({**held, **msgspec.structs.asdict(context)})
        self._write(path, msgspec.json.format(text, indent=2))

    def delete(self, name: str) -> None:
        """Remove a context; it is no longer the selected one either."""
        self._require(name)
        if self.selected == name:
            self.unselect()
        self.path(name).unlink()

    @property
    def selected(self) -> str:
        """Return the name of the selected context, "" without one."""
        return self._word("context.txt")

    @property
    def previous(self) -> str:
        """Return the name of the context that was selected before, "" without one."""
        return self._word("previous-context.txt")

    def select(self, name: str) -> None:
        """Make a context the one that is used when none is named."""
        self._require(name)
        before = self.selected
        if before:
            self._write(self.directory / "previous-context.txt", before.encode())
        self._write(self.directory / "context.txt", name.encode())

    def unselect(self) -> None:
        """Use no context when none is named."""
        if before := self.selected:
            self._write(self.directory / "previous-context.txt", before.encode())
            (self.directory / "context.txt").unlink()

    def resolve(self, name: str = "") -> tuple[str, SavedContext]:
        """Return the named context, else the selected one, else an empty one without a name."""
        chosen = name or self.selected
        return (chosen, self.load(chosen)) if chosen else ("", SavedContext())

    def _require(self, name: str) -> None:
        if not self.known(name):
            raise Error(f'there is no context "{name}": see `headwater context ls`')

    def _read(self, name: str) -> dict[str, Any]:
        self._require(name)
        path = self.path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except OSError as error:
            raise Error(f"cannot read {path}: {error.strerror}") from None
        except msgspec.DecodeError:
            raise Error(f"{path} is not a JSON object: mend it by hand, or remove it") from None

    def _word(self, file: str) -> str:
        try:
            return (self.directory / file).read_text().strip()
        except OSError:
            return ""

    def _write(self, path: Path, content: bytes) -> None:
        """Replace a file as a whole, readable by its owner alone: contexts hold passwords."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            draft.replace(path)
        except OSError as error:
            raise Error(f"cannot write {path}: {error.strerror}") from None
