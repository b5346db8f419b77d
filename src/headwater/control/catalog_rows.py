"""The rows of the catalog: one declared stream, one declared consumer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.control.declaration import ConsumerDeclaration, ConsumerFile, Declaration
from headwater.model.names import directory_name


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One declared stream; `directory` is the name of its folder, `config` its JSON."""

    account: str
    name: str
    config: str
    created_ns: int
    identity: str
    directory: str
    revision: int = 1

    @property
    def values(self) -> tuple[object, ...]:
        """Return the columns, without the checksum."""
        return (
            self.account,
            self.name,
            self.config,
            self.created_ns,
            self.identity,
            self.directory,
            self.revision,
        )

    def home(self, store: Path) -> Path:
        """Return the durable directory of the stream."""
        return store / directory_name(self.account) / self.directory

    def declaration(self, store_id: str, replaces: int = 0) -> Declaration:
        """Return the row as it is stored next to the data."""
        return Declaration(
            store=store_id,
            identity=self.identity,
            account=self.account,
            name=self.name,
            directory=self.directory,
            config=self.config,
            created_ns=self.created_ns,
            revision=self.revision,
            replaces=replaces,
        )

    @classmethod
    def of(cls, declared: Declaration, directory: str) -> StreamRow:
        """Return the row of a stream whose declaration was found next to its data, in this directory."""
        return cls(
            declared.account,
            declared.name,
            declared.config,
            declared.created_ns,
            declared.identity,
            directory,
            declared.revision,
        )


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """One declared consumer; `config` is its JSON."""

    account: str
    stream: str
    name: str
    config: str
    created_ns: int
    revision: int = 1

    @property
    def values(self) -> tuple[object, ...]:
        """Return the columns, without the checksum."""
        return self.account, self.stream, self.name, self.config, self.created_ns, self.revision

    @property
    def file(self) -> ConsumerFile:
        """Return the file in which this revision is stored next to the stream's data."""
        return ConsumerFile.of(self.name, self.created_ns, self.revision)

    def declaration(self, identity: str) -> ConsumerDeclaration:
        """Return the row as it is stored next to the data of the stream with this identity."""
        return ConsumerDeclaration(
            identity=identity,
            name=self.name,
            config=self.config,
            created_ns=self.created_ns,
            revision=self.revision,
        )
