"""`headwater serve`: run an engine until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from headwater.cli.console_child import console_child, with_known_ports
from headwater.cli.journal import start_journal
from headwater.cli.options import GroupedCommand, load_from, settings_flags
from headwater.disk import UMASK
from headwater.errors import SettingsError
from headwater.stan.modes import check_modes
from headwater.store_directory import require_directory

logger = logging.getLogger(__name__)

_EPILOG = """\b
Examples:
  headwater serve --store ./lake
      an engine with its own nats-server on loopback, port 4222
  headwater serve --store ./lake --nats nats://hub:4222 --domain lake --creds lake.creds
      attached to a running nats-server, as JetStream domain "lake"
  HEADWATER_CONFIG=/etc/headwater.toml headwater serve
      all settings from a file
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@settings_flags
def serve(config: Path | None, **flags: str | None) -> None:
    """Run an engine: serve the streams of a store to NATS clients until SIGTERM or SIGINT.

    Without --nats, the engine starts a nats-server on loopback, and clients need no options. With --nats, it
    attaches to a running nats-server and serves a JetStream domain there.
    """
    loaded = load_from(config, flags)
    settings = loaded.settings
    if settings.store is None:
        raise SettingsError("missing store directory: pass --store DIR or set HEADWATER_STORE")
    check_modes(settings)
    os.umask(UMASK)
    require_directory(settings.store)
    start_journal(settings.log_level, settings.log_format)
    for name in ("password", "token"):
        if loaded.origins[name].startswith("flag "):
            logger.warning(
                "the %s is on the command line, where other users of this machine can read it", name
            )
    # Imported here: help and usage errors need not wait for the engine's libraries.
    from headwater.app import serve as serve_streams

    settings = with_known_ports(settings)
    with console_child(settings):
        run_until_signalled(serve_streams(settings))


def run_until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends, or until a signal cancels it and it has cleaned up."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_cancelled_by_signals(work))


async def _cancelled_by_signals(work: Coroutine[Any, Any, None]) -> None:
    """Await the work; the first SIGTERM or SIGINT cancels it, a second one kills the process."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    signalled = False

    def cancel(number: int) -> None:
        nonlocal signalled
        signalled = True
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, cancel, number)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise


def _loop_factory() -> Any:
    """Return uvloop's event loop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
