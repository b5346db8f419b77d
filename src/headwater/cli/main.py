"""The command `headwater`: its sub-commands, and the exit code for each kind of error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from headwater.cli.client import AliasedGroup, global_flags
from headwater.cli.completion import complete_command, complete_names
from headwater.cli.lazy_commands import LazyCommands
from headwater.errors import Error, SettingsError
from headwater.process.ending import EXIT_INTERRUPTED, ProcessEnd
from headwater.version import VERSION

EXIT_ERROR = 1
EXIT_USAGE = 2

_EPILOG = """\b
Exit codes:
  0  success; for an engine, a clean stop after a signal
  1  an error, described in one sentence on standard error
  2  a flag, a variable or a key of the settings file is unknown or invalid
  130  Ctrl-C stopped the command; unfinished work was undone or is marked as unfinished
"""


_COMMANDS = {
    "backfill": "headwater.cli.backfill:backfill",
    "check": "headwater.cli.check:check",
    "completion": "headwater.cli.completion:completion",
    "console": "headwater.cli.console:console",
    "consumer": "headwater.cli.consumer.commands:consumer",
    "context": "headwater.cli.context_commands:context",
    "pipeline": "headwater.cli.pipeline:pipeline",
    "pub": "headwater.cli.publish:pub",
    "replicator": "headwater.cli.replicator:replicator",
    "reply": "headwater.cli.reply:reply",
    "report": "headwater.cli.report.commands:report",
    "req": "headwater.cli.publish:req",
    "serve": "headwater.cli.serve:serve",
    "settings": "headwater.cli.settings:settings",
    "site": "headwater.cli.site.commands:site",
    "sql": "headwater.cli.sql:sql",
    "store": "headwater.cli.store_commands:store",
    "stream": "headwater.cli.stream.commands:stream",
    "sub": "headwater.cli.subscribe:sub",
}
_ALIASES = {
    "consumer": ("c", "con", "obs"),
    "context": ("ctx",),
    "pipeline": ("pipelines",),
    "pub": ("publish",),
    "req": ("request",),
    "stream": ("s", "str", "st"),
    "sub": ("subscribe",),
}


@click.group(
    cls=AliasedGroup,
    commands=LazyCommands(_COMMANDS, complete_command),
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, message="headwater %(version)s")
@global_flags
def headwater() -> None:
    """JetStream streams stored as Delta tables.

    The flags below select the server and the credentials. You can write them before or after the command. A
    context file of the nats command supplies what you leave out.
    """


for name, others in _ALIASES.items():
    headwater.alias(name, *others)
complete_names(headwater.params)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line, by default that of this process, which then ends, and exit with its code."""
    if arguments is not None:
        run(arguments)
    with ProcessEnd():
        run(None)


def run(arguments: list[str] | None) -> NoReturn:
    """Run a command line and exit with its code."""
    try:
        headwater.main(arguments, prog_name="headwater", standalone_mode=False)
        sys.exit(0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except Error as error:
        print(f"headwater: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE if isinstance(error, SettingsError) else EXIT_ERROR)
