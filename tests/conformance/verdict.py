"""Whether two servers agree on a scenario: a difference counts when it shows in two runs."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.difference import Difference, compare
from conformance.known import KnownDifference, explained, stale
from conformance.probe import Answer

Recordings = tuple[list[Answer], list[Answer]]
Record = Callable[[], Awaitable[Recordings]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """What two servers disagree on beyond what is known, and what is known but no longer differs."""

    found: tuple[Difference, ...] = ()
    stale: tuple[KnownDifference, ...] = ()

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """Return the differences that nothing explains."""
        return tuple(one for one in self.found if not explained(one))

    @property
    def agrees(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.unexplained and not self.stale

    def __str__(self) -> str:
        lines = [f"\n{one.request}\n  {one}" for one in self.unexplained]
        return "\n".join([*lines, *(f"no longer differs: {known.title}" for known in self.stale)])


async def judged(name: str, record: Record) -> Verdict:
    """Return what differs in this run and, if that is not as known, in a second one as well.

    nats-server's own answers vary with the load of the machine: what it has counted or sent by the moment
    of an answer. What differs by mistake differs again.
    """
    try:
        first = _compared(name, await record())
    except Exception:
        logger.warning("%s broke off; once more", name, exc_info=True)
        return _compared(name, await record())
    if first.agrees:
        return first
    logger.warning("%s differs; once more: %s", name, first)
    return both(first, _compared(name, await record()))


def both(first: Verdict, second: Verdict) -> Verdict:
    """Return the part of the second verdict that the first had found as well."""
    return Verdict(
        tuple(one for one in second.found if any(_same_place(one, other) for other in first.found)),
        tuple(known for known in second.stale if known in first.stale),
    )


def _compared(name: str, recordings: Recordings) -> Verdict:
    found = compare(name, *recordings)
    return Verdict(tuple(found), tuple(stale(name, found)))


def _same_place(one: Difference, other: Difference) -> bool:
    """Whether two differences are of the same field; a list of another length is named as a whole."""
    if one.label != other.label:
        return False
    return one.path.startswith(other.path) or other.path.startswith(one.path)
