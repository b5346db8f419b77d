"""What all steps of a repair share: the store, what they may do, the quarantine and what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headwater.disk import Disk
from headwater.fence import Fence
from headwater.store.quarantine import Quarantine


@dataclass(frozen=True)
class Options:
    """What a repair may do."""

    dry_run: bool = False
    forget_missing: bool = False
    """Forget streams whose directories are missing."""
    only: str = ""


@dataclass(frozen=True)
class RepairJob:
    """One repair in progress."""

    store: Path
    disk: Disk
    fence: Fence
    options: Options
    quarantine: Quarantine
    done: list[str] = field(default_factory=list)
    """What was done so far, or with `dry_run` would be done, as lines for the operator."""
