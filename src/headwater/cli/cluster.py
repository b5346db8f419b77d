"""`stream cluster`: there is no cluster to be managed here, and this says so."""

from __future__ import annotations

import click

from headwater.cli.client import Caller, client_command
from headwater.errors import Error


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@client_command
def cluster(caller: Caller, words: tuple[str, ...]) -> None:
    """Say that there are no leaders and replicas to be managed.

    An engine keeps one copy of a stream; what makes it outlast a machine is its store, and an engine that
    stands by for it (`headwater serve --standby true`).
    """
    raise Error(
        "a stream has one engine and no replicas, so that there is no leader to step down and no peer to "
        "remove; for a cluster of nats-servers use `nats stream cluster`"
    )
