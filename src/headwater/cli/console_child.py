"""The console that `headwater serve --console` starts with an engine, as a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec

from headwater.bus.free_port import free_port
from headwater.errors import SettingsError
from headwater.process.launcher import bound_to_us
from headwater.settings import Settings

STOP_S = 10
_FLAGS = {
    "creds": "--creds",
    "nkey": "--nkey",
    "tls_ca": "--tlsca",
    "tls_cert": "--tlscert",
    "tls_key": "--tlskey",
}
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def with_known_ports(settings: Settings) -> Settings:
    """Return the settings with the ports chosen that the console must know; unchanged without a console."""
    if not settings.console:
        return settings
    if find_spec("uvicorn") is None or find_spec("starlette") is None or find_spec("jinja2") is None:
        raise SettingsError("console needs more packages: pip install 'headwater[console]'")
    http_port = settings.http_port or free_port()
    if settings.nats_url is None and settings.port == 0:
        return replace(settings, http_port=http_port, port=free_port())
    return replace(settings, http_port=http_port)


def console_command(settings: Settings) -> list[str]:
    """Return the command of a console that connects as the engine does; it names no secret."""
    where = settings.nats_url or f"nats://127.0.0.1:{settings.port}"
    host = _LOCAL.get(settings.http_host, settings.http_host)
    pages = f"http://{f'[{host}]' if ':' in host else host}:{settings.http_port}"
    command = [sys.executable, "-m", "headwater", "console", "--no-context", "--server", where]
    command += ["--port", str(settings.console_port), "--monitoring", pages]
    if settings.domain:
        command += ["--js-domain", settings.domain]
    for name, flag in _FLAGS.items():
        if (path := getattr(settings, name)) is not None:
            command += [flag, str(path)]
    return command + (["--tlsfirst"] if settings.tls_first else [])


def console_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the console: ours without other connections, with the engine's secrets."""
    kept = {name: value for name, value in environ.items() if not name.startswith("NATS_")}
    password = settings.password
    if settings.password_file is not None:
        password = settings.password_file.read_text().strip()
    secrets = {"NATS_USER": settings.user, "NATS_PASSWORD": password, "NATS_TOKEN": settings.token}
    return kept | {name: value for name, value in secrets.items() if value}


@contextmanager
def console_child(settings: Settings) -> Iterator[None]:
    """Run a console for the length of a block, if one is wanted; it never outlives this process."""
    if not settings.console:
        yield
        return
    process = subprocess.Popen(
        bound_to_us(console_command(settings)),
        env=console_environment(settings, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # the engine's own output says when it is ready
        start_new_session=True,  # Ctrl-C must reach only the engine, which ends its children
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
