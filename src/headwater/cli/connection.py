"""A command's server and credentials: from flags, the environment, a context file, or defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click

from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import SettingsError
from headwater.model.names import valid_asset_name
from headwater.model.times import SECOND, parse_duration

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_TIMEOUT = "5s"


@dataclass(frozen=True)
class Flag:
    """One connection flag: its declaration, its variable, its key in a context file, its help."""

    names: tuple[str, ...]
    variable: str
    key: str
    help: str
    metavar: str = "TEXT"


# The name of a field of `ConnectionSettings`, and its flag.
FLAGS: Mapping[str, Flag] = {
    "server": Flag(("-s", "--server"), "NATS_URL", "url", "Server URLs, separated by commas.", "URL"),
    "user": Flag(("--user",), "NATS_USER", "user", "User name; without --password, a token."),
    "password": Flag(("--password",), "NATS_PASSWORD", "password", "Password of --user."),
    "token": Flag(("--token",), "NATS_TOKEN", "token", "Token."),
    "creds": Flag(
        ("--creds",), "NATS_CREDS", "creds", "Credentials file with a user's JWT and seed.", "FILE"
    ),
    "nkey": Flag(("--nkey",), "NATS_NKEY", "nkey", "File with an nkey's seed.", "FILE"),
    "jwt": Flag(("--jwt",), "NATS_JWT", "user_jwt", "User JWT, together with --seed."),
    "seed": Flag(("--seed",), "NATS_SEED", "user_seed", "Seed for --jwt."),
    "tls_cert": Flag(("--tlscert",), "NATS_CERT", "cert", "TLS client certificate.", "FILE"),
    "tls_key": Flag(("--tlskey",), "NATS_KEY", "key", "Private key of --tlscert.", "FILE"),
    "tls_ca": Flag(("--tlsca",), "NATS_CA", "ca", "TLS certificate authority to trust.", "FILE"),
    "tls_first": Flag(
        ("--tlsfirst/--no-tlsfirst",), "", "tls_first", "Start TLS before the server's INFO.", ""
    ),
    "timeout": Flag(("--timeout",), "NATS_TIMEOUT", "", "How long to wait for an answer (5s).", "DURATION"),
    "domain": Flag(("--js-domain",), "", "jetstream_domain", "JetStream domain.", "NAME"),
    "api_prefix": Flag(
        ("--js-api-prefix",), "", "jetstream_api_prefix", "Subject prefix of the JetStream API.", "PREFIX"
    ),
    "inbox_prefix": Flag(("--inbox-prefix",), "", "inbox_prefix", "Subject prefix of inboxes.", "PREFIX"),
    "context": Flag(("--context",), "NATS_CONTEXT", "", "Context that supplies missing flags.", "NAME"),
    "no_context": Flag(("--no-context",), "", "", "Ignore the selected context.", ""),
}


def connection_flags(command: Command, *, variables: bool = False, hidden: bool = True) -> Command:
    """Give a command the connection flags. Only the outermost one reads the environment and lists them."""
    for name, flag in reversed(list(FLAGS.items())):
        about: dict[str, Any] = {"help": flag.help, "hidden": hidden, "default": None}
        if flag.metavar:
            about["metavar"] = flag.metavar
        else:
            about["is_flag"] = True
        if variables and flag.variable:
            about |= {"envvar": flag.variable, "show_envvar": True}
        command = click.option(*flag.names, name, **about)(command)
    return command


def taken_from(flags: dict[str, Any]) -> dict[str, Any]:
    """Remove the given connection flags from a command's arguments, and return them."""
    taken = {name: flags.pop(name) for name in FLAGS if name in flags}
    return {name: value for name, value in taken.items() if value is not None}


def settle(
    given: Mapping[str, Any], load_context: Callable[[str | None], Mapping[str, Any]]
) -> ConnectionSettings:
    """Return the connection settings from flags, environment and context."""
    values: dict[str, Any] = {}
    if not given.get("no_context"):
        context = load_context(given.get("context"))
        values = {name: context[flag.key] for name, flag in FLAGS.items() if context.get(flag.key)}
    values |= {name: value for name, value in given.items() if name not in ("context", "no_context")}
    # A domain on the command line takes precedence over a prefix in the context.
    if given.get("domain") and not given.get("api_prefix"):
        values.pop("api_prefix", None)
    values["timeout"] = seconds(str(values.get("timeout", DEFAULT_TIMEOUT)), "--timeout")
    if values.get("domain") and not valid_asset_name(values["domain"]):
        raise SettingsError(
            f"--js-domain {values['domain']!r} is invalid: pass one token without dots and wildcards"
        )
    known = {field.name for field in fields(ConnectionSettings)}
    return ConnectionSettings(**{name: value for name, value in values.items() if name in known})


def seconds(text: str, flag: str) -> float:
    """Return the seconds of a duration such as `500ms` or of a plain number of seconds."""
    ns = parse_duration(text)
    if ns is None:
        try:
            ns = int(float(text) * SECOND)
        except ValueError:
            ns = 0
    if ns <= 0:
        raise SettingsError(f"{flag} {text!r} is invalid: pass a duration such as 500ms, 5s or 1m")
    return ns / SECOND


def load_context(name: str | None) -> Mapping[str, Any]:
    """Return the context of this name, or the selected one, or nothing if none is selected."""
    from headwater.cli.contexts import FILE_FIELDS, ContextFolder

    _, context = ContextFolder.of_user().resolve(name or "")
    said = {flag.key: getattr(context, flag.key) for flag in FLAGS.values() if flag.key}
    return said | {field: context.path_of(field) for field in FILE_FIELDS}


def selected_context(name: str | None) -> str:
    """Return the name of the context that `load_context` loads; "" if none is selected."""
    from headwater.cli.contexts import ContextFolder

    return name or ContextFolder.of_user().selected
