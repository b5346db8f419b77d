"""The declared streams of one account: their rows of the catalog and their configs."""

from __future__ import annotations

from headwater.control.catalog_rows import StreamRow
from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.model.subject import collides
from headwater.wire.stream_json import decode_config


class DeclaredStreams:
    """What is declared, whether it is open or offline."""

    def __init__(self) -> None:
        self.configs: dict[str, StreamConfig] = {}
        """The declared configs, and those about to be.

        Nothing is awaited between checking a config against these and adding it here, so no two streams can
        have the same subject.
        """
        self.rows: dict[str, StreamRow] = {}
        """The rows of the streams that are declared; orphans have the row of their declaration."""

    def add(self, row: StreamRow) -> None:
        """Add a stream with its config as far as that can be read."""
        self.rows[row.name] = row
        self.configs[row.name] = readable_config(row)

    def remove(self, name: str) -> None:
        """Remove a deleted stream."""
        del self.configs[name], self.rows[name]

    def has(self, row: StreamRow) -> bool:
        """Return whether a row is still that of its name: the stream may have been deleted and re-created."""
        known = self.rows.get(row.name)
        return known is not None and known.identity == row.identity

    def names(self, subject: str = "") -> list[str]:
        """Return the sorted names of the streams, all or those whose subjects overlap with this one."""
        if not subject:
            return sorted(self.rows)
        return sorted(name for name in self.rows if _listens(self.configs[name], subject))


def readable_config(row: StreamRow) -> StreamConfig:
    """Return the config of a row as far as it can be read."""
    try:
        return decode_config(row.config.encode())[0]
    except Error:
        return StreamConfig(name=row.name)


def _listens(config: StreamConfig, subject: str) -> bool:
    return any(collides(subject, ours) for ours in config.subjects)
