"""The shim between this process and its disk: compiled with gcc, loaded by LD_PRELOAD, steered by ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
MARK = "HEADWATER_SIM_SHIM"
"""Set in a process that runs on the shim."""


class Op(IntEnum):
    """Kinds of operations, as in shim.c."""

    CREATE = 0
    WRITE = 1
    TRUNCATE = 2
    SYNC = 3
    SYNC_DIR = 4
    RENAME = 5
    LINK = 6
    UNLINK = 7
    MKDIR = 8
    RMDIR = 9
    OPEN = 10
    READ = 11


CHANGES = tuple(op for op in Op if op not in (Op.OPEN, Op.READ))


class Fault(IntEnum):
    """How an operation breaks, as in shim.c."""

    REFUSED = 1
    """Nothing is done; after a refused sync the bytes it was for never become durable."""
    TORN = 2
    """The first part of a write is done, and it is reported as failed."""
    LATE = 3
    """It is done, and reported as failed."""
    FULL = 4
    """No space is left: a write is short or refused, and what needs no space goes well."""
    KILL = 5
    """The process ends; of a write, a first part was done."""


def why_not() -> str:
    """Return why there can be no shim here, or nothing if there can be one."""
    if not Path("/proc/self").exists():
        return "LD_PRELOAD needs Linux"
    return "" if shutil.which("gcc") else "gcc is missing: apt-get install -y gcc libc6-dev"


def build(folder: Path) -> Path:
    """Return the compiled shim."""
    text = SOURCE.read_bytes()
    path = folder / f"shim-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        fresh = path.with_suffix(f".{os.getpid()}")
        flags = ["-O1", "-Wall", "-Wno-format-truncation", "-shared", "-fPIC"]
        subprocess.run(
            ["gcc", *flags, "-o", str(fresh), str(SOURCE), "-ldl", "-lpthread"], check=True, timeout=120
        )
        fresh.rename(path)
    return path


def environment(shim: Path) -> dict[str, str]:
    """Return the environment of a process that runs on the shim, with as little chance in it as can be."""
    return {
        **os.environ,
        "LD_PRELOAD": str(shim),
        MARK: "1",
        "PYTHONHASHSEED": "0",
        "ARROW_IO_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TOKIO_WORKER_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "1",
    }


class Shim:
    """The disk of this process, which breaks as it is asked to."""

    def __init__(self) -> None:
        assert os.environ.get(MARK), "this process does not run on the shim"
        self._c = ctypes.CDLL(None)
        self._c.sim_operations.restype = ctypes.c_uint64
        self._c.sim_done.restype = ctypes.c_uint64
        self._c.sim_broken.restype = ctypes.c_uint64
        self._c.sim_trace.restype = ctypes.c_void_p
        self.root = Path()

    def begin(self, root: Path, seed: int) -> None:
        """Watch another directory from now on, with a healthy disk and an empty trace."""
        self.root = root
        self._c.sim_begin(os.fsencode(root), ctypes.c_uint64(seed))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do something to the files that is neither counted nor broken nor traced."""
        self._c.sim_pause(1)
        try:
            yield
        finally:
            self._c.sim_pause(0)

    @property
    def dead(self) -> bool:
        """Return whether the process has ended for the simulated file system."""
        return bool(self._c.sim_dead())

    @property
    def operations(self) -> int:
        """Return how many operations there were."""
        return int(self._c.sim_operations())

    def die(self) -> None:
        """End the process between two operations."""
        self._c.sim_die()

    def kill_at(self, nth: int) -> None:
        """End the process at the first change that is the nth operation or a later one."""
        self._c.sim_kill_at(ctypes.c_uint64(nth))

    def kill_on(self, op: Op) -> None:
        """End the process at the next operation of a kind."""
        self._c.sim_kill_on(int(op))

    def arm(self, nth: int, fault: Fault) -> None:
        """Break the first change that is the nth operation or a later one."""
        self._c.sim_arm(ctypes.c_uint64(nth), int(fault))

    def fill(self) -> None:
        """Have no space left until `heal`."""
        self._c.sim_full(1)

    def rate(self, op: Op, fault: Fault, rate: float) -> None:
        """Break this part of the operations of a kind until `heal`."""
        self._c.sim_rate(int(op), int(fault), int(rate * 65536))

    def heal(self) -> None:
        """Break nothing any more."""
        self._c.sim_heal()
        self.kill_at(0)

    def trace(self) -> bytes:
        """Return what was done to the files since `begin`."""
        length = ctypes.c_uint64()
        address = self._c.sim_trace(ctypes.byref(length))
        return ctypes.string_at(address, length.value) if address else b""

    def counts(self) -> Counter[str]:
        """Return how many operations of each kind there were, and how many broke in which way."""
        found: Counter[str] = Counter()
        for op in Op:
            found[f"op {op.name.lower()}"] = int(self._c.sim_done(int(op)))
            for fault in Fault:
                broken = int(self._c.sim_broken(int(op), int(fault)))
                if broken:
                    found[f"fault {fault.name.lower()}"] += broken
                    found[f"fault {fault.name.lower()} {op.name.lower()}"] += broken
        return found
