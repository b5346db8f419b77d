"""Descriptors whose numbers were those of files of the store, on a full disk; runs on the shim.

Prints one JSON line: how a descriptor was closed, and the results of writes to the next one with its number.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from simulation.engine.power import WRITE, Medium, records
from simulation.engine.shim import Fault, Shim

ONE = (1).to_bytes(8, sys.byteorder)


def closed_by_scandir(store: Path) -> int:
    """Return the number of a descriptor that `closedir` closed, inside libc."""
    directory = os.open(store, os.O_RDONLY)
    before = _numbers()
    with os.scandir(directory):
        (number,) = _numbers() - before
    os.close(directory)
    return number


def closed_by_range(store: Path) -> int:
    """Return the number of a descriptor that `close_range` closed."""
    number = os.open(store / "file", os.O_RDWR)
    os.closerange(number, number + 1)
    return number


def _numbers() -> set[int]:
    """Return the numbers of the open descriptors."""
    return {number for number in range(256) if os.path.exists(f"/proc/self/fd/{number}")}


def written(shim: Shim, store: Path, close: Callable[[Path], int]) -> str:
    """Return the result of a write to an eventfd that has the number of a file of the store."""
    number = close(store)
    made = [os.eventfd(0)]
    while made[-1] < number:
        made.append(os.eventfd(0))
    assert number in made
    shim.fill()
    try:
        os.write(number, ONE)
    except OSError as error:
        return f"refused: {error}"
    finally:
        shim.heal()
        for each in made:
            os.close(each)
    is_traced = any(record.kind == WRITE and record.data == ONE for record in records(shim.trace()))
    return "taken for a file" if is_traced else "written"


def truncated(shim: Shim, store: Path) -> str:
    """Return the results of two truncations of a file by its path, the first with a fault."""
    shim.arm(shim.operations + 1, Fault.REFUSED)
    try:
        os.truncate(store / "file", 2)
    except OSError:
        os.truncate(store / "file", 4)
        return "refused once"
    finally:
        shim.heal()
    return "never refused"


def synced(path: Path) -> None:
    """Make a file or a directory durable."""
    number = os.open(path, os.O_RDONLY)
    os.fsync(number)
    os.close(number)


def main() -> None:
    """Print the result of each case, and what a power failure leaves after them."""
    store = Path(sys.argv[1]) / "store"
    store.mkdir(parents=True)
    medium, shim = Medium(store), Shim()
    shim.begin(store, 1)
    (store / "file").write_text("0123456789")
    found = {close.__name__: written(shim, store, close) for close in (closed_by_scandir, closed_by_range)}
    found["truncated"] = truncated(shim, store)
    synced(store / "file")
    synced(store)
    medium.replay(shim.trace())
    with shim.aside():
        medium.cut(random.Random(1), store.with_name("left"))
    found["left"] = (store.with_name("left") / "file").read_text()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
