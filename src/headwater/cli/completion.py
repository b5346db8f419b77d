"""Shell completion: of commands and flags by click, and of stream, consumer and context names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from headwater.cli.client import Caller
from headwater.cli.connection import taken_from
from headwater.cli.contexts import ContextFolder
from headwater.errors import Error

PROGRAM = "headwater"
VARIABLE = "_HEADWATER_COMPLETE"
WAIT = "1s"
"""How long completion waits for a server."""

_EPILOG = """\b
Add one of these lines to the start-up file of your shell:
  bash, in ~/.bashrc:                    eval "$(headwater completion bash)"
  zsh, in ~/.zshrc:                      eval "$(headwater completion zsh)"
  fish, in ~/.config/fish/config.fish:   headwater completion fish | source
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell script that completes commands, flags and names."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source())


class Name(click.ParamType[str]):
    """The name of a stream, a consumer or a context, completed by a query."""

    def __init__(self, what: str) -> None:
        self.name = what

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchecked: the server checks it."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[Any]]:
        """Return the names with this prefix; none if no server answers."""
        try:
            found = names(self.name, ctx)
        except Error:
            found = []
        return [CompletionItem(each) for each in sorted(found) if each.startswith(incomplete)]


def names(what: str, ctx: click.Context) -> list[str]:
    """Return the names of all contexts, all streams, or the consumers of the stream on the command line."""
    if what == "context":
        return ContextFolder.of_user().names()
    caller = Caller({"timeout": WAIT, **_connection(ctx)}, False)
    if what == "stream":
        return caller.run(lambda session: session.stream_names())
    stream = ctx.params.get("stream")
    if not stream:
        return []
    return caller.run(lambda session: session.pages(f"CONSUMER.NAMES.{stream}", "consumers"))


def complete_command(name: str, command: click.Command, path: tuple[str, ...] = ()) -> None:
    """Add completion to every parameter of a command, and of its sub-commands, that is a name."""
    complete_names(command.params, (*path, name))
    if isinstance(command, click.Group):
        for inner, sub_command in command.commands.items():
            complete_command(inner, sub_command, (*path, name))


def complete_names(parameters: Iterable[click.Parameter], path: tuple[str, ...] = ()) -> None:
    """Add completion to every parameter that is a name."""
    for parameter in parameters:
        _complete(parameter, path)


def _complete(parameter: click.Parameter, path: tuple[str, ...]) -> None:
    what = what_is_named(parameter, path)
    if what:
        parameter.type = Name(what)


def what_is_named(parameter: click.Parameter, path: tuple[str, ...]) -> str:
    """Return what a parameter names, "" for other parameters and types other than text."""
    if not isinstance(parameter.type, type(click.STRING) | Name):
        return ""
    if isinstance(parameter, click.Option):
        flags = {"--context": "context", "--stream": "stream", "--mirror": "stream", "--source": "stream"}
        flags["--durable"] = "consumer"
        return next((flags[flag] for flag in parameter.opts if flag in flags), "")
    group = path[0] if path else ""
    metavar = (parameter.metavar or parameter.name or "").strip("[]").upper()
    if group == "context" and path[1] != "add":
        return "context" if metavar in ("NAME", "SOURCE") else ""
    if group == "consumer" and metavar in ("CONSUMER", "SOURCE"):
        return "consumer"
    known = metavar == "STREAM" or (group == "stream" and metavar == "SOURCE") or path == ("check", "stream")
    return "stream" if known and path[:2] != ("stream", "add") else ""


def _connection(ctx: click.Context) -> dict[str, Any]:
    """Return the connection flags on the command line; the innermost take precedence."""
    given: dict[str, Any] = {}
    for each in reversed(list(_chain(ctx))):
        given |= taken_from(dict(each.params))
    return given


def _chain(ctx: click.Context | None) -> Iterator[click.Context]:
    while ctx is not None:
        yield ctx
        ctx = ctx.parent
