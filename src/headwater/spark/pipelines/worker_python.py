"""The program that Spark starts as Python on this machine: workers connect early, all else is as usual."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from headwater.spark.pipelines import early_worker

_SCRIPT = """#!/bin/sh
if [ -n "$WHERE" ] && [ "$1" = -m ] && [ "$2" != pyspark.daemon ]; then
    shift
    exec {python} {early} "$@"
fi
exec {python} "$@"
"""
_WHERE = f"${early_worker.PORT}${early_worker.PATH}"
"""Set for workers, which Spark waits for; its daemon connects in another way."""


def worker_python() -> str:
    """Return the program; it is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "python"
    named = {"python": shlex.quote(sys.executable), "early": shlex.quote(str(early_worker.__file__))}
    script.write_text(_SCRIPT.replace("$WHERE", _WHERE).format(**named))
    script.chmod(0o700)
    # False where temporary files may not be executed.
    return str(script) if os.access(script, os.X_OK) else sys.executable
