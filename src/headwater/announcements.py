"""What an engine announces while it starts: that it waits for its store, and that it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Announcements(Protocol):
    """Receives the announcements of one engine."""

    def waiting(self, store: Path, owner: str) -> None:
        """Record that another process, whose id may be known, serves the store."""
        ...

    def ready(self, url: str, served: str, seconds: float) -> None:
        """Record that clients of this address are answered, and what is served to them."""
        ...


class PrintedAnnouncements:
    """Prints each announcement as one line."""

    def waiting(self, store: Path, owner: str) -> None:
        """Print that the engine is a standby for now."""
        print(
            f"headwater waits: {store} is served by the engine with process id {owner or 'unknown'}",
            flush=True,
        )

    def ready(self, url: str, served: str, seconds: float) -> None:
        """Print what is served."""
        print(f"headwater is ready: {served} ({seconds:.2f} s)", flush=True)
