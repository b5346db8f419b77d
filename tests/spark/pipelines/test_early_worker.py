"""A worker that is connected before its module is imported."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from headwater.spark.pipelines.early_worker import PATH, PORT
from headwater.spark.pipelines.worker_python import worker_python

WORKER = """
import os, socket, sys

sys.stdin.read()
path = os.environ.get("{path}")
where = path or ("127.0.0.1", int(os.environ["{port}"]))
family = socket.AF_UNIX if path else socket.AF_INET
own = socket.socket(family)
own.settimeout(15)
own.connect(where)
assert own.gettimeout() == 15
own.sendall(b"own " + " ".join(sys.argv[1:]).encode())
own.close()
other = socket.socket(family)
other.connect(where)
other.sendall(b"other")
"""


@pytest.mark.parametrize("kind", [PORT, PATH])
def test_a_worker_is_connected_before_it_begins_and_uses_that_connection_once(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "some_worker.py").write_text(WORKER.replace("{port}", PORT).replace("{path}", PATH))
    family, at = (socket.AF_INET, ("127.0.0.1", 0)) if kind == PORT else (socket.AF_UNIX, f"{tmp_path}/s")
    with socket.socket(family) as server:
        server.bind(at)
        server.listen()
        where = server.getsockname()
        environ = {**os.environ, kind: str(where[1]) if kind == PORT else where}
        command = [worker_python(), "-m", "some_worker", "a"]
        worker = subprocess.Popen(command, env=environ, cwd=tmp_path, stdin=subprocess.PIPE)
        server.settimeout(60)
        early, _ = server.accept()
        # Only now may the worker go on.
        worker.communicate()
        assert worker.returncode == 0
        later, _ = server.accept()
        with early, later:
            assert early.recv(100) == b"own a"
            assert later.recv(100) == b"other"
