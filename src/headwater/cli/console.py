"""`headwater console`: show the streams of one or more sites in a browser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from headwater.cli.client import Caller, client_command
from headwater.cli.connection import load_context, settle
from headwater.cli.contexts import ContextFolder
from headwater.cli.journal import start_journal
from headwater.console.watched_site import WatchedSite
from headwater.errors import SettingsError

TOKEN_VARIABLE = "HEADWATER_CONSOLE_TOKEN"

_EPILOG = """\b
Examples:
  headwater console
      the selected context, or the server at nats://127.0.0.1:4222
  headwater console east west --monitoring east=http://127.0.0.1:8222
      two contexts of the nats command, one of them with its metrics
  headwater console --all --host 0.0.0.0 --http-cert cert.pem --http-key key.pem
      every context, for other machines; the token is printed, or set in HEADWATER_CONSOLE_TOKEN
  headwater console --print-user ada >> users
      add a user to the file for --users-file; asks for the password
"""


@click.command(epilog=_EPILOG)
@click.argument("contexts", nargs=-1, metavar="[CONTEXT]...")
@click.option("--all", "every", is_flag=True, help="Show every context.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8280, show_default=True, help="Port to listen on."
)
@click.option(
    "--monitoring",
    multiple=True,
    metavar="[CONTEXT=]URL",
    help="Address of an engine's --http-port, for its metrics and readiness.",
)
@click.option(
    "--console-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"File with the token for the login (or {TOKEN_VARIABLE}).",
)
@click.option(
    "--users-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the users who log in with a password, one NAME:HASH a line.",
)
@click.option(
    "--print-user", metavar="NAME", help="Ask for a password, print a line for --users-file, and exit."
)
@click.option("--host-name", "host_names", multiple=True, help="Name that browsers may use for this console.")
@click.option(
    "--http-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="TLS certificate."
)
@click.option(
    "--http-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its private key."
)
@click.option(
    "--plain-http", is_flag=True, help="Listen beyond loopback without TLS, behind a proxy that has it."
)
@click.option(
    "--store",
    default="",
    metavar="PATH",
    help="Store, or s3://BUCKET/PREFIX, whose tables the console may query.",
)
@click.option(
    "--store-account",
    default="",
    metavar="NAME",
    help="Account whose tables these are, if the store has several.",
)
@click.option("--allow-changes", is_flag=True, help="Let the console create, edit, purge and delete.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.2, 60),
    default=1.0,
    show_default=True,
    help="Seconds between reads while a browser is open.",
)
@client_command
def console(caller: Caller, contexts: Sequence[str], every: bool, **flags: Any) -> None:
    """Show streams, copies, consumers and engines in a browser until Ctrl-C.

    Each CONTEXT of the nats command is one site. Without any, the connection flags name the only site. The
    console is a client like any other: it also shows plain nats-servers.
    """
    try:
        from headwater.console import console_server
    except ImportError as error:
        raise SettingsError(
            f"the console needs more packages ({error}): pip install 'headwater[console]'"
        ) from None
    if flags["print_user"]:
        _print_user(flags["print_user"])
        return
    settings = console_server.checked(
        console_server.ConsoleSettings(
            host=flags["host"],
            port=flags["port"],
            token=_token(flags["console_token_file"], os.environ),
            users_file=flags["users_file"],
            host_names=flags["host_names"],
            tls_cert=flags["http_cert"],
            tls_key=flags["http_key"],
            plain_http=flags["plain_http"],
            allow_changes=flags["allow_changes"],
            store=flags["store"],
            store_account=flags["store_account"],
            interval_s=flags["interval_s"],
        )
    )
    sites = _sites(caller, contexts, every, flags["monitoring"])
    start_journal("info", "text")
    server = console_server.server(sites, settings)
    listener = console_server.bound_socket(settings)
    click.echo(f"the console is at {console_server.address_of(settings, listener)}", err=True)
    if settings.token:
        click.echo(f"log in with the token {settings.token}", err=True)
    server.run(sockets=[listener])


def _print_user(name: str) -> None:
    from headwater.console.console_users import user_line

    password = click.prompt("Password", hide_input=True, confirmation_prompt="Again", err=True)
    click.echo(user_line(name, password))


def _sites(
    caller: Caller, contexts: Sequence[str], every: bool, monitoring: Sequence[str]
) -> list[WatchedSite]:
    names = ContextFolder.of_user().names() if every else list(dict.fromkeys(contexts))
    addresses = _addresses(monitoring, names)
    if not names:
        url = next(iter(addresses.values()), "")
        return [WatchedSite(_own_name(caller), caller.connection, url)]
    return [
        WatchedSite(name, settle({"context": name}, load_context), addresses.get(name, "")) for name in names
    ]


def _own_name(caller: Caller) -> str:
    """Return the name of the only site: its context, its domain, or local."""
    return caller.context_name or caller.connection.domain or "local"


def _addresses(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the monitoring addresses by site; an address alone belongs to the first site."""
    found: dict[str, str] = {}
    for text in given:
        name, separator, url = text.partition("=")
        if not separator or "://" in name:
            name, url = (names[0] if names else ""), text
        if names and name not in names:
            raise SettingsError(f'--monitoring {text}: "{name}" is not among the contexts that are shown')
        found[name] = url
    return found


def _token(file: Path | None, environ: Mapping[str, str]) -> str:
    token = file.read_text().strip() if file is not None else environ.get(TOKEN_VARIABLE, "").strip()
    if file is not None and not token:
        raise SettingsError(f"{file} is empty: write a token into it")
    return token
