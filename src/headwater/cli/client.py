"""Commands that connect to a server: their flags, their session and their output format."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.cli.connection import connection_flags, load_context, selected_context, settle, taken_from
from headwater.client.connection_settings import ConnectionSettings

if TYPE_CHECKING:
    from headwater.cli.session import Session

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., Any])


class Caller:
    """One run of a client command: its connection, and whether it prints JSON."""

    def __init__(self, given: Mapping[str, Any], as_json: bool) -> None:
        self._given = given
        self.as_json = as_json

    @functools.cached_property
    def connection(self) -> ConnectionSettings:
        """Return the connection settings, resolved on first use."""
        return settle(self._given, load_context)

    @functools.cached_property
    def context_name(self) -> str:
        """Return the name of the context that supplies the connection; "" if there is none."""
        return "" if self._given.get("no_context") else selected_context(self._given.get("context"))

    def run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Connect, run the work and close. Ctrl-C cancels the work, which can clean up."""

        # Every command loads this module. Those that connect to nothing start without nats.py.
        from headwater.cli.session import connected

        async def connect_and_work() -> Result:
            async with connected(self.connection) as session:
                return await work(session)

        with asyncio.Runner() as runner:
            return runner.run(connect_and_work())


def client_command(command: Command) -> Command:
    """Give a command the connection flags and --json, and call it with a `Caller` first."""

    @functools.wraps(command)
    def call(*args: Any, **flags: Any) -> Any:
        context = click.get_current_context()
        outer = context.find_root().obj or {}
        given = {**outer, **taken_from(flags)}
        as_json = bool(flags.pop("as_json") or given.pop("as_json", False))
        return command(Caller(given, as_json), *args, **flags)

    return connection_flags(json_flag(call))  # type: ignore[return-value]


def json_flag(command: Command) -> Command:
    """Give a command --json."""
    return click.option("-j", "--json", "as_json", is_flag=True, help="Print JSON.")(command)


def global_flags(command: Command) -> Command:
    """Give the outermost command the connection flags, and pass their values to its sub-commands."""

    @functools.wraps(command)
    def call(*args: Any, **flags: Any) -> Any:
        kept = taken_from(flags)
        if flags.pop("as_json"):
            kept["as_json"] = True
        click.get_current_context().obj = kept
        return command(*args, **flags)

    return connection_flags(json_flag(call), variables=True, hidden=False)  # type: ignore[return-value]


def group_flags(command: Command) -> Command:
    """Accept the connection flags after a group's name as well."""

    @functools.wraps(command)
    def call(*args: Any, **flags: Any) -> Any:
        root = click.get_current_context().find_root()
        root.obj = {**(root.obj or {}), **taken_from(flags)}
        return command(*args, **flags)

    return connection_flags(call)  # type: ignore[return-value]


class AliasedGroup(click.Group):
    """A group whose commands have aliases, which the help does not list."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.aliases: dict[str, str] = {}
        """The command of each alias."""

    def alias(self, name: str, *others: str) -> None:
        """Give a command aliases."""
        assert name in self.commands, name
        self.aliases |= dict.fromkeys(others, name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name or alias."""
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command by its full name, so that usage lines show it."""
        _, command, rest = super().resolve_command(ctx, args)
        return command.name if command else None, command, rest
