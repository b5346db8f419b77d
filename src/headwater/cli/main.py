"""The command `headwater`: its sub-commands, and how each kind of wrong leaves the process."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from headwater import __version__
from headwater.cli.serve import serve
from headwater.cli.settings import settings
from headwater.errors import Error, SettingsError

EXIT_ERROR = 1
EXIT_USAGE = 2

_EPILOG = """\b
Exit codes:
  0  the command did its work; an engine was told to stop and stopped cleanly
  1  an error, said in one sentence on standard error
  2  a flag, a variable or a key of the settings file is unknown or has no sense
"""


@click.group(
    epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, message="headwater %(version)s")
def headwater() -> None:
    """JetStream streams that live in a lakehouse."""


headwater.add_command(serve)
headwater.add_command(settings)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    try:
        headwater.main(arguments, prog_name="headwater", standalone_mode=False)
        sys.exit(0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(EXIT_ERROR)
    except Error as error:
        print(f"headwater: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE if isinstance(error, SettingsError) else EXIT_ERROR)
