"""Starting child processes so that none outlives us.

On Linux a child asks the kernel to be killed with its parent. It must ask before it executes its program, so
a short script asks and then replaces itself. No code of ours may run between fork and exec: this process has
threads, and one of them may hold a lock that the forked copy would wait for.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Sequence

_SCRIPT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # the parent ended before we asked
os.execvp(sys.argv[2], sys.argv[2:])
"""


def bound_to_us(command: Sequence[str]) -> list[str]:
    """Return the command that runs this one so that it ends with this process, however that ends.

    On other systems a child can outlive a killed engine. The next start then reports that the port is in use.
    """
    if sys.platform != "linux":
        return list(command)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    return [sys.executable, "-I", "-S", "-c", _SCRIPT, str(os.getpid()), *command]
