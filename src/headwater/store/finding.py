"""A finding of a check of a store: what, where, what it means, and what to do about it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import msgspec


class Kind(StrEnum):
    """The kind of a finding, by which a repair decides."""

    CATALOG = "catalog"
    """The catalog is missing or damaged."""
    ORPHAN = "orphan"
    """A stream's directory that the catalog does not list."""
    NO_HOME = "missing-directory"
    """A stream in the catalog without a directory."""
    MOVED = "moved-directory"
    """A stream whose directory has another name than the catalog says."""
    IDENTITY = "identity"
    """A directory without a valid identity."""
    DECLARATION = "declaration"
    """A config file next to the data that is damaged or differs from the catalog."""
    CHECKPOINT = "checkpoint"
    """The state of a stream is damaged."""
    LOG = "log"
    """A part of a stream's log is damaged."""
    TABLE = "table"
    """A stream's Delta log is damaged, or does not name all files that are needed."""
    DATA = "data"
    """A file of messages is damaged or missing."""
    CONSUMER = "consumer"
    """What is recorded about a consumer cannot be read."""
    CURSOR = "cursor"
    """How far an upstream was copied cannot be read."""
    STAN = "stan"
    """A record of NATS Streaming is damaged."""
    UNREADABLE = "unreadable"
    """Something could not be checked."""
    NOTE = "note"
    """Not a problem, but worth knowing."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a report."""

    kind: Kind
    where: str
    what: str
    meaning: str = ""
    remedy: str = ""
    stream: str = ""
    """Account and name, joined by a slash; empty where it is about the whole store."""

    @property
    def is_problem(self) -> bool:
        """Return whether something is wrong."""
        return self.kind is not Kind.NOTE

    def __str__(self) -> str:
        """Return the line that a person reads."""
        about = f"{self.stream}: " if self.stream else ""
        said = ". ".join(part.rstrip(".") for part in (self.what, self.meaning, self.remedy) if part)
        return f"{self.kind}: {about}{self.where}: {said}."


REPAIR = "Run `headwater store repair`"
_ADVICE = re.compile(r"; run `headwater store repair`( with the engine stopped)?$")
"""How errors of the engine end. A finding has it as its remedy."""
_DAMAGED = " is damaged at byte "
"""What follows the path in a `CorruptionError`."""


def problem(kind: Kind, where: Path | str, what: object, meaning: str, remedy: str = REPAIR) -> Finding:
    """Return a problem of a store. Its line names the file and the remedy once."""
    place, said = str(where), _ADVICE.sub("", str(what))
    said = said.removeprefix(f"the catalog {place} ").removeprefix("is ")
    path, damaged, why = said.partition(_DAMAGED)
    if damaged and path.startswith(place):
        place, said = path, damaged.removeprefix(" is ") + why
    return Finding(kind=kind, where=place, what=said, meaning=meaning, remedy=remedy)


def note(where: Path | str, what: str) -> Finding:
    """Return something worth knowing."""
    return Finding(kind=Kind.NOTE, where=str(where), what=what)


def is_below(where: str, home: Path) -> bool:
    """Return whether a place of a finding is a directory, or is in it."""
    return where == str(home) or where.startswith(f"{home}/")


def of_stream(found: Finding, account: str, name: str) -> Finding:
    """Return a finding as one about this stream."""
    return msgspec.structs.replace(found, stream=f"{account}/{name}")
