"""The quarantine of a table in a bucket: damaged objects go below a prefix that readers of tables ignore."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects

PREFIX = "_quarantine"


class BucketQuarantine:
    """A prefix below one table for one repair."""

    def __init__(self, objects: Objects) -> None:
        """Take the objects of the table."""
        self._objects = objects
        self._prefix = f"{PREFIX}/{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%fZ')}"

    @property
    def address(self) -> str:
        """Return where the objects go."""
        return f"{self._objects.address}/{self._prefix}"

    def take(self, name: str) -> None:
        """Move an object, or all that are below a folder; one that is missing is left out."""
        keys = [info.key for info in self._objects.list(name)]
        for key in keys or [name]:
            self._move(key)

    def _move(self, key: str) -> None:
        try:
            self._objects.copy(key, f"{self._prefix}/{key}")
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return
            raise
        self._objects.delete(key)
