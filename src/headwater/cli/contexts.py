"""Named connections: context files, which the `nats` command reads and writes as well.

`$XDG_CONFIG_HOME/nats` (or `~/.config/nats`) holds `context/<name>.json`, the selected name in
`context.txt` and the one before it in `previous-context.txt`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from headwater import private_file
from headwater.errors import Error

DEFAULT_URL = "nats://127.0.0.1:4222"
CREDENTIAL_FIELDS = ("user", "creds", "nkey", "nsc")
SECRET_FIELDS = ("password", "token", "user_jwt", "user_seed")
FILE_FIELDS = ("creds", "nkey", "cert", "key", "ca")


class SavedContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context; fields have their names in the file and are empty if unset."""

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
        """Return the server URLs."""
        return [url.strip() for url in (self.url or DEFAULT_URL).split(",") if url.strip()]

    def path_of(self, field: str) -> str:
        """Return the path in a field with `~` and (for credentials) variables expanded; "" if unset."""
        text: str = getattr(self, field)
        return os.path.expanduser(os.path.expandvars(text) if field == "creds" else text)

    def updated(self, given: Mapping[str, Any]) -> SavedContext:
        """Return this context with the non-empty fields replaced."""
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
            raise Error(f'"{name}" is not a valid context name: use letters, digits, "-" and "_"')
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
            raise Error(f"{self.path(name)} is not a context: {error}") from None

    def save(self, name: str, context: SavedContext) -> None:
        """Write the file of a context. Unknown keys in the file are kept."""
        kinds = [field for field in CREDENTIAL_FIELDS if getattr(context, field)]
        if len(kinds) > 1:
            raise Error(f"a context has one kind of credentials, not {' and '.join(kinds)}: remove one")
        path = self.path(name)
        held = self._read(name) if path.exists() else {}
        text = msgspec.json.encode({**held, **msgspec.structs.asdict(context)})
        self._write(path, msgspec.json.format(text, indent=2))

    def delete(self, name: str) -> None:
        """Remove a context, and unselect it."""
        self._require(name)
        if self.selected == name:
            self.unselect()
        self.path(name).unlink()

    @property
    def selected(self) -> str:
        """Return the name of the selected context, "" if there is none."""
        return self._word("context.txt")

    @property
    def previous(self) -> str:
        """Return the name of the previously selected context, "" if there is none."""
        return self._word("previous-context.txt")

    def select(self, name: str) -> None:
        """Select the context that is used without --context."""
        self._require(name)
        before = self.selected
        if before:
            self._write(self.directory / "previous-context.txt", before.encode())
        self._write(self.directory / "context.txt", name.encode())

    def unselect(self) -> None:
        """Use no context without --context."""
        if before := self.selected:
            self._write(self.directory / "previous-context.txt", before.encode())
            (self.directory / "context.txt").unlink()

    def resolve(self, name: str = "") -> tuple[str, SavedContext]:
        """Return the named context, else the selected one, else an empty, unnamed one."""
        chosen = name or self.selected
        return (chosen, self.load(chosen)) if chosen else ("", SavedContext())

    def _require(self, name: str) -> None:
        if not self.known(name):
            raise Error(f'there is no context "{name}": `headwater context ls` lists them')

    def _read(self, name: str) -> dict[str, Any]:
        self._require(name)
        path = self.path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except OSError as error:
            raise Error(f"cannot read {path}: {error.strerror}") from None
        except msgspec.DecodeError:
            raise Error(f"{path} is not a JSON object: correct or remove it") from None

    def _word(self, file: str) -> str:
        try:
            return (self.directory / file).read_text().strip()
        except OSError:
            return ""

    def _write(self, path: Path, content: bytes) -> None:
        """Replace a file atomically, readable by its owner only: contexts contain passwords."""
        try:
            private_file.replace(path, content)
        except OSError as error:
            raise Error(f"cannot write {path}: {error.strerror}") from None
