"""A Python worker of Spark that connects to Spark first, and imports pyspark then; run as a script.

Spark waits ten seconds for the worker that follows a stream, which no setting changes. Where the cores are
busy, importing pyspark takes longer: then the query fails, is started again, and fails again.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from collections.abc import Mapping
from typing import Any

PORT = "PYTHON_WORKER_FACTORY_PORT"
PATH = "PYTHON_WORKER_FACTORY_SOCK_PATH"
"""Of a socket in the file system, which Spark may use instead of a port."""


def connect_early(environ: Mapping[str, str]) -> None:
    """Connect to Spark; the worker's own attempt to connect takes this connection over."""
    there: Any = environ.get(PATH)
    if there:
        early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        early.connect(there)
    else:
        host = "::1" if environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
        there = (host, int(environ[PORT]))
        early = socket.create_connection(there)
    connect = socket.socket.connect

    def take_over(self: socket.socket, address: Any) -> None:
        if early.fileno() < 0 or there not in (address, address[:2]):
            connect(self, address)
            return
        os.dup2(early.fileno(), self.fileno(), inheritable=False)
        early.close()
        self.settimeout(self.gettimeout())

    socket.socket.connect = take_over  # type: ignore[method-assign, assignment]


def main() -> None:
    """Run the module of a worker as `python -m` does."""
    module = sys.argv[1]
    connect_early(os.environ)
    sys.path[0] = os.getcwd()
    sys.argv = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
