"""A real object store of Azure's kind for tests: Microsoft's Azurite from npm, on a free loopback port."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from headwater.bus.free_port import free_port
from headwater.objects.address import BucketAddress

FOLDER = Path(__file__).parent / "js"
INSTALL_WITHIN_S = 300
READY_S = 60
ACCOUNT = "headwater"
KEY = base64.b64encode(b"not a secret of anyone, but of the length that is usual").decode()
_VERSION = "2021-12-02"


def missing() -> str | None:
    """Return why the server can not run here, if it can not."""
    absent = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else None


def install() -> None:
    """Return once the pinned package is in node_modules."""
    pinned = json.loads((FOLDER / "package.json").read_text())["dependencies"]["azurite"]
    manifest = FOLDER / "node_modules" / "azurite" / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != pinned:
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        subprocess.run(["npm", "install", *quiet], cwd=FOLDER, check=True, timeout=INSTALL_WITHIN_S)


class AzuriteServer:
    """An Azurite process with one account."""

    def __init__(self, directory: Path) -> None:
        self._port = free_port()
        self._containers = 0
        program = FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        where = ("--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--location", str(directory))
        # It may be older than the version of the protocol that the client asks for.
        options = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["node", str(program), *where, *options],
                env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}", "PATH": "/usr/local/bin:/usr/bin:/bin"},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables from which clients take the server, the account and the key.

        Azurite does not list from a key on. A client that knows of the emulator does not ask for that.
        """
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{self._port}",
        }

    def await_ready(self) -> None:
        """Return once the server listens."""
        deadline = time.monotonic() + READY_S
        while True:
            assert self._process.poll() is None, "Azurite ended"
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "Azurite does not listen"
                time.sleep(0.05)

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()

    def new_container(self) -> BucketAddress:
        """Return the address of a new and empty container; the account must be in the environment."""
        self._containers += 1
        name = f"container-{self._containers}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        signed = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
        text = "PUT" + "\n" * 12 + f"{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/{ACCOUNT}/{name}?restype=container",
            method="PUT",
            headers=headers,
        )
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            assert answer.status == 201
        return BucketAddress(f"az://{name}")


@contextmanager
def azurite() -> Iterator[AzuriteServer]:
    """Run an Azurite."""
    install()
    with tempfile.TemporaryDirectory(prefix="azurite-", ignore_cleanup_errors=True) as directory:
        server = AzuriteServer(Path(directory))
        try:
            server.await_ready()
            yield server
        finally:
            server.stop()
