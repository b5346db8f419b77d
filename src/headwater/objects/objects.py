"""What an object store promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol


class ObjectInfo(NamedTuple):
    """An object as a listing shows it."""

    key: str
    size: int
    e_tag: str
    """Changes when the object is written again."""


class Objects(Protocol):
    """Objects below one address; every refusal is an `ObjectError`, and any thread may call.

    A write is durable when it returns. Readers see all of an object or nothing. After a write that failed
    with another problem than EXISTS, CHANGED or MISSING the object may or may not have been written.
    """

    @property
    def address(self) -> str:
        """Return the URL of the prefix that keys are below."""
        ...

    def below(self, prefix: str) -> Objects:
        """Return the objects below a prefix of these."""
        ...

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return the bytes of this range, fewer where the object ends."""
        ...

    def get_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes of the object, and its size."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Return what a listing shows of the object."""
        ...

    def put(self, key: str, data: bytes) -> str:
        """Return the ETag once the object is this data."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """Return once the object is the content of a local file."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> str:
        """Return the ETag once the object is this data; if several callers use one key, one succeeds."""
        ...

    def put_if_match(self, key: str, data: bytes, e_tag: str) -> str:
        """Return the new ETag once the object with this ETag is replaced by this data."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys are below the prefix, at any depth."""
        ...

    def delete(self, key: str) -> None:
        """Return once the object is gone, or was not there."""
        ...

    def sync(self, key: str) -> None:
        """Return once an object that another library wrote through its own client is durable."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Return once target is what source is; the bytes stay in the object store."""
        ...
