"""The numbers of this process and its disk, under the names that Prometheus clients use for them."""

from __future__ import annotations

import math
import os
import resource
import time
from pathlib import Path

from headwater.monitor.exposition import Exposition

_PAGE = os.sysconf("SC_PAGE_SIZE")


def start_time_s() -> float:
    """Return when this process started, in seconds since the epoch; now if the system does not say."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - uptime_s + ticks / os.sysconf("SC_CLK_TCK")


STARTED_S = start_time_s()


def write_process(exposition: Exposition) -> None:
    """Write CPU time, memory and open files of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    exposition.counter(
        "process_cpu_seconds", "CPU time, user and system.", [("", used.ru_utime + used.ru_stime)]
    )
    exposition.gauge("process_start_time_seconds", "Start of the process.", [("", STARTED_S)])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    exposition.gauge("process_max_fds", "Files that the process may have open.", [("", limit)])
    try:
        files = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    exposition.gauge("process_resident_memory_bytes", "Memory in use.", [("", resident_bytes())])
    exposition.gauge("process_open_fds", "Open files.", [("", files)])


def resident_bytes() -> float:
    """Return the memory that this process has in use; NaN if the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return math.nan


def write_disk(exposition: Exposition, store: Path) -> None:
    """Write how large and how full the disk of the store is; nothing if it does not say."""
    try:
        disk = os.statvfs(store)
    except OSError:
        return
    block = disk.f_frsize
    exposition.gauge("headwater_disk_size_bytes", "Size of the store's disk.", [("", disk.f_blocks * block)])
    exposition.gauge(
        "headwater_disk_free_bytes", "Free space on the store's disk.", [("", disk.f_bavail * block)]
    )
