"""The command `headwater`: its sub-commands, and the exit code for each kind of error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from headwater.cli.check import check
from headwater.cli.client import AliasedGroup, global_flags
from headwater.cli.completion import complete_names, completion
from headwater.cli.consumer.commands import NAMES as CONSUMER_NAMES
from headwater.cli.consumer.commands import consumer
from headwater.cli.context_commands import context
from headwater.cli.publish import pub, req
from headwater.cli.replicator import replicator
from headwater.cli.reply import reply
from headwater.cli.serve import serve
from headwater.cli.settings import settings
from headwater.cli.site.commands import site
from headwater.cli.store_commands import store
from headwater.cli.stream.commands import NAMES, stream
from headwater.cli.subscribe import sub
from headwater.errors import Error, SettingsError
from headwater.version import VERSION

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_EPILOG = """\b
Exit codes:
  0  success; for an engine, a clean stop after a signal
  1  an error, described in one sentence on standard error
  2  a flag, a variable or a key of the settings file is unknown or invalid
  130  Ctrl-C stopped the command; unfinished work was undone or is marked as unfinished
"""


@click.group(
    cls=AliasedGroup,
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


headwater.add_command(check)
headwater.add_command(completion)
headwater.add_command(consumer)
headwater.alias("consumer", *CONSUMER_NAMES)
headwater.add_command(context)
headwater.alias("context", "ctx")
headwater.add_command(replicator)
headwater.add_command(pub)
headwater.alias("pub", "publish")
headwater.add_command(reply)
headwater.add_command(req)
headwater.alias("req", "request")
headwater.add_command(serve)
headwater.add_command(settings)
headwater.add_command(site)
headwater.add_command(store)
headwater.add_command(sub)
headwater.alias("sub", "subscribe")
headwater.add_command(stream)
headwater.alias("stream", *NAMES)
complete_names(headwater)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
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
