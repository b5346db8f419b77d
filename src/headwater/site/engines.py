"""The engines of sites: which one serves, which ones are standbys, and since when."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from headwater.control.ownership import NAME, Owner
from headwater.errors import Error
from headwater.site.child import Child
from headwater.site.run_record import EngineState, running

SERVING, STANDBY, STARTING, DOWN, STOPPED = "serving", "standby", "starting", "down", "stopped"
_SAYS = {b"headwater is ready": SERVING, b"headwater waits": STANDBY}
"""What an engine prints when it begins to serve, or to wait."""
_OVERLAP = max(map(len, _SAYS)) - 1


def engine_name(engine: str, number: int) -> str:
    """Return the name of an engine's process."""
    return f"engine {engine}" if number == 1 else f"engine {engine} {number}"


@dataclass
class EngineChild:
    """One engine of a site, and what it printed last about itself."""

    engine: str
    number: int
    child: Child
    store: Path
    state: str = DOWN
    since: float = field(default_factory=time.time)
    _pid: int | None = None
    _read: int = 0

    def look(self) -> None:
        """Read what the engine has printed since the last look."""
        found = self._found()
        if found != self.state:
            self.state, self.since = found, time.time()

    def _found(self) -> str:
        pid = self.child.pid
        if pid is None:
            return DOWN
        state = self.state
        if pid != self._pid:
            self._pid, self._read, state = pid, self.child.began_at, STARTING
        with self.child.log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        self._read += max(len(text) - _OVERLAP, 0)
        places = {text.rfind(words): state for words, state in _SAYS.items()}
        return places[max(places)] if max(places) >= 0 else state

    @property
    def recorded(self) -> EngineState:
        """Return the state for the record."""
        pid = self.child.pid
        process = running(self.child.name, pid, self.child.restarts) if pid is not None else None
        epoch = epoch_of(self.store, pid) if self.state == SERVING and pid is not None else 0
        return EngineState(self.engine, self.number, process, self.state, self.since, epoch)


class EngineWatch:
    """All engines of a fleet."""

    def __init__(self) -> None:
        self._engines: list[EngineChild] = []

    def add(self, engine: EngineChild) -> None:
        """Watch an engine from now on."""
        self._engines.append(engine)

    def look(self) -> None:
        """Read what each engine has printed."""
        for engine in self._engines:
            engine.look()

    def serving(self, engine: str) -> int:
        """Return the number of the engine that serves, zero if none does."""
        return next((e.number for e in self._engines if e.engine == engine and e.state == SERVING), 0)

    @property
    def states(self) -> tuple[EngineState, ...]:
        """Return the states for the record."""
        return tuple(engine.recorded for engine in self._engines)


def epoch_of(store: Path, pid: int) -> int:
    """Return the epoch of a store that this process owns, zero if it does not."""
    try:
        owner = Owner.decode((store / NAME).read_bytes(), store / NAME)
    except (OSError, Error):
        return 0
    return owner.epoch if owner.pid == pid else 0
