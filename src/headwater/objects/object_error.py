"""What can go wrong with an object, each problem as one sentence."""

from __future__ import annotations

from enum import Enum
from errno import EACCES, EAGAIN, EEXIST, EINVAL, EIO, ENOENT
from pathlib import Path

from headwater.errors import DiskError, Error


class Problem(Enum):
    """Why an object store did not do what was asked."""

    MISSING = "there is no such object"
    EXISTS = "the object exists already"
    CHANGED = "the object was changed by another writer"
    NO_BUCKET = "the bucket does not exist"
    DENIED = "the credentials were refused"
    UNREACHABLE = "the object store cannot be reached"
    THROTTLED = "the object store asks for fewer requests"
    UNSUPPORTED = "the object store does not support the request"
    FAILED = "the object store failed"


_ERRNOS = {
    Problem.MISSING: ENOENT,
    Problem.EXISTS: EEXIST,
    Problem.CHANGED: EEXIST,
    Problem.DENIED: EACCES,
    Problem.THROTTLED: EAGAIN,
    Problem.UNSUPPORTED: EINVAL,
}
_FINAL = frozenset({Problem.MISSING, Problem.EXISTS, Problem.CHANGED})
"""Problems with the object, not with the store."""


class ObjectError(DiskError):
    """An object store refused an operation; after a write the outcome is unknown unless the problem says it.

    It is a DiskError, because the callers that can retry treat both alike.
    """

    def __init__(self, address: str, operation: str, problem: Problem, detail: str = "") -> None:
        reason = f"{problem.value} ({detail})" if detail else problem.value
        Error.__init__(self, f"cannot {operation} {address}: {reason}")
        self.address = address
        self.operation = operation
        self.problem = problem
        self.detail = detail
        self.errno = _ERRNOS.get(problem, EIO)
        self.path = Path(address)

    @property
    def is_outage(self) -> bool:
        """Return whether the store itself is the problem, so that other requests would fail too."""
        return self.problem not in _FINAL
