"""The end of our processes: exit functions run, but the interpreter is not finalized.

A native thread can outlive the last line of Python. Arrow's I/O threads, for example, release the buffers
that they read from a Python file a moment after the read returned. If the interpreter is finalized by then,
CPython ends such a thread with `pthread_exit` (releases before 3.14 do). That unwinds a C++ destructor, and
C++ aborts the whole process, after all of its work is done: "terminate called without an active exception".
A daemon thread that is inside a native call has the same end. The kernel frees everything without any of it.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from types import TracebackType
from typing import NoReturn, TextIO

EXIT_BROKEN_OUTPUT = 120
"""The exit code if not all output could be written; CPython's own."""
EXIT_INTERRUPTED = 130


class ProcessEnd:
    """Ends the process with the exit code of a block, once all later exit functions have run.

    The block is what the process is for. Use it at the entry of a program only.
    """

    def __init__(self) -> None:
        self._code = 1

    def __enter__(self) -> ProcessEnd:
        # Exit functions run in reverse order, after all threads that are no daemons were joined.
        atexit.register(self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._code = 0
        elif isinstance(error, SystemExit):
            self._code = _number(error.code)
        elif isinstance(error, KeyboardInterrupt):
            self._code = EXIT_INTERRUPTED

    def _end(self) -> NoReturn:
        logging.shutdown()  # whose exit function is older than ours
        is_written = _flush(sys.stdout) & _flush(sys.stderr)
        os._exit(self._code if is_written else self._code or EXIT_BROKEN_OUTPUT)


def _number(code: object) -> int:
    """Return the exit code as the interpreter would, which prints anything that is no number."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _flush(file: TextIO | None) -> bool:
    """Return whether all output is written."""
    try:
        if file is not None and not file.closed:
            file.flush()
    except (OSError, ValueError):
        return False
    return True
