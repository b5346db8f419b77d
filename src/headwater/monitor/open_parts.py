"""What monitoring reads from the parts of an engine that has opened its store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.journal.head_journal import JournalPeer
from headwater.monitor.part_numbers import BucketNumbers, JournalNumbers, ReplicatorNumbers
from headwater.stream.view import RunCache


def _nothing() -> None:
    """Return no numbers: the engine does not use it."""


@dataclass(frozen=True)
class OpenParts:
    """Each function is called whenever a page is read; the defaults are those of an engine that starts."""

    cache: RunCache | None = None
    """The cache of row groups."""
    may_send: Callable[[], bool] | None = None
    """Whether this engine surely owns its journal; None without a journal."""
    replicator_problem: Callable[[], str] = str
    """Returns why there is no replicator, if that is known."""
    peers: Callable[[], Sequence[JournalPeer]] = tuple
    """Returns the servers that keep copies of the journal, if there is one."""
    bucket: Callable[[], BucketNumbers | None] = _nothing
    """Returns the numbers of the bucket, if there is one."""
    journal: Callable[[], JournalNumbers | None] = _nothing
    """Returns the numbers of the journal, if there is one."""
    replicator: Callable[[], ReplicatorNumbers | None] = _nothing
    """Returns the numbers of the replicator, if the engine starts it."""
