"""The machine a figure was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def describe(nats_server: str) -> str:
    """Return cores, processor, memory, kernel and versions in two lines."""
    server = subprocess.run(
        [nats_server, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("headwater", "pyarrow", "deltalake", "uvloop")
    )
    return (
        f"{cores} cores, {_processor()}, {memory:.0f} GiB, Linux {platform.release()}\n"
        f"Python {platform.python_version()}, {server}, {libraries}"
    )


def _processor() -> str:
    """Return the processor's name, or the architecture if the kernel does not report it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
