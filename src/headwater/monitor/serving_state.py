"""What is known of a running engine: its phase, the accounts it serves, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.monitor.open_parts import OpenParts
from headwater.monitor.served_account import ServedAccount

MOST_NAMED = 5
"""How many streams a reason names; the others are counted."""


class EnginePhase(StrEnum):
    """What an engine does."""

    STARTING = "starting"
    STANDBY = "standby"
    """Another engine serves the store."""
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be right for the engine to be ready."""

    name: str
    problem: str = ""
    """What is wrong, in one sentence; empty if nothing is."""


class ServingState:
    """Filled in by the engine as it starts, and read by the pages."""

    def __init__(self, accounts: int = 1) -> None:
        self.phase = EnginePhase.STARTING
        self.owner = ""
        """Who serves the store while this engine is a standby."""
        self._wanted = accounts
        """How many accounts the engine is to serve."""
        self.served: list[ServedAccount] = []
        self.parts = OpenParts()
        """What the pages read from the open store."""

    def waits(self, owner: str) -> None:
        """Record that another engine serves the store."""
        self.phase, self.owner = EnginePhase.STANDBY, owner

    def starts(self) -> None:
        """Record that the store is owned and being opened."""
        self.phase, self.owner = EnginePhase.STARTING, ""

    def opened(self, parts: OpenParts) -> None:
        """Record that the store is open."""
        self.parts = parts

    def serves(self, account: ServedAccount) -> None:
        """Record that clients of an account are answered."""
        self.served.append(account)
        if len(self.served) >= self._wanted:
            self.phase = EnginePhase.SERVING

    def ended(self, account: ServedAccount) -> None:
        """Record that an account is not served any more."""
        self.served.remove(account)
        self.phase = EnginePhase.STARTING

    @property
    def is_ready(self) -> bool:
        """Return whether every account is served and nothing is wrong."""
        return not any(check.problem for check in self.checks())

    def checks(self) -> list[Check]:
        """Return what readiness depends on, each with its problem if it has one."""
        checks = [Check("engine", self._phase_problem())]
        may_send = self.parts.may_send
        if may_send is not None and self.phase is EnginePhase.SERVING:
            stale = "the journal has not confirmed for seconds that this engine owns the store"
            checks.append(Check("journal", "" if may_send() else stale))
        if self.phase is not EnginePhase.STANDBY:
            checks += [
                Check("disk", self._disk_problem()),
                Check("streams", self._offline()),
                Check("replicator", self._replicator_problem()),
            ]
        return checks

    def _phase_problem(self) -> str:
        if self.phase is EnginePhase.STANDBY:
            who = f"the engine {self.owner}" if self.owner else "another engine"
            return f"this engine is a standby; {who} serves the store"
        if self.phase is EnginePhase.STARTING:
            return f"{len(self.served)} of {self._wanted} accounts are served"
        return ""

    def _disk_problem(self) -> str:
        failing = [
            (stream.name, stream.failure)
            for account in self.served
            for stream in account.domain.open_streams
            if stream.failure
        ]
        if not failing:
            return ""
        reason = failing[0][1]
        return f"{_named([name for name, _ in failing])} cannot be stored or folded: {reason}"

    def _offline(self) -> str:
        offline = [(n, why) for account in self.served for n, why in account.domain.offline.items()]
        if not offline:
            return ""
        return f"{_named([name for name, _ in offline])} could not be opened: {offline[0][1]}"

    def _replicator_problem(self) -> str:
        has_upstreams = any(True for account in self.served for _ in account.upstreams)
        return self.parts.replicator_problem() if has_upstreams else ""


def _named(names: list[str]) -> str:
    """Return streams by name, the first few of them."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"stream{'s' if len(names) > 1 else ''} {', '.join(sorted(names)[:MOST_NAMED])}{more}"
