"""What the processes below this one use: CPU time and bytes read, as the kernel counts them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU time in seconds, and bytes that were read from files."""

    cpu_s: float = 0.0
    read_bytes: int = 0


def now() -> Mapping[int, Usage]:
    """Return what this process and each one below it has used."""
    found = {}
    for process in family(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            lines = Path(f"/proc/{process}/io").read_text().splitlines()
        except OSError:
            continue  # it has just ended
        found[process] = Usage((int(fields[11]) + int(fields[12])) / _TICKS, int(lines[0].split()[1]))
    return found


def since(before: Mapping[int, Usage]) -> Usage:
    """Return what was used since another moment; processes that have ended are not counted."""
    cpu_s, read_bytes = 0.0, 0
    for process, usage in now().items():
        then = before.get(process, Usage())
        cpu_s += usage.cpu_s - then.cpu_s
        read_bytes += usage.read_bytes - then.read_bytes
    return Usage(cpu_s, read_bytes)


def family(process: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield process
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [child for each in threads for child in (each / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from family(int(child))
