"""`stream cluster`: an error that explains why Headwater has no cluster commands."""

from __future__ import annotations

import click

from headwater.cli.client import Caller, client_command
from headwater.errors import Error


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@client_command
def cluster(caller: Caller, words: tuple[str, ...]) -> None:
    """Not available: streams have no leader and no replicas to manage.

    An engine keeps one copy of a stream in its store. For fail-over, run a second engine as a standby for the
    same store (`headwater serve --standby true`). With --tables and --journal, every message is also stored
    outside of the machine.
    """
    raise Error(
        "streams have no leader and no replicas here: for fail-over run `headwater serve --standby true`; "
        "for a cluster of nats-servers use `nats stream cluster`"
    )
