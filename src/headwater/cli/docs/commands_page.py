"""The reference page of the command line, generated from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from headwater.cli.connection import FLAGS
from headwater.cli.main import headwater
from headwater.cli.options import GroupedCommand

_HEAD = """\
# Command line

<!-- Written by `make docs-pages` from src/headwater/cli; edit there. -->

`headwater` follows the `nats` command: it has the same commands, flags, variables and context files.
Commands for streams and consumers use the JetStream API and work with Headwater and with nats-server.

## Where a command connects

You can write these flags before or after the command. Flags take precedence over variables, variables
over the context (`--context`, else the one selected with `headwater context select`), and the context
over defaults.

| flag | variable | key in a context file | meaning |
|---|---|---|---|"""

_TAIL = """\

## What a command writes

- Tables fit the width of the terminal, or `COLUMNS`. In a narrow terminal, columns without information
  are dropped first. Other dropped columns are named below the table. In a pipe, output is neither wrapped
  nor coloured. `NO_COLOR` turns colours off on a terminal as well.
- Reports colour the lag, the time since an origin was last seen, and errors: yellow from one message of
  lag or 30 seconds, red from 1,000 messages or 2 minutes. `never` means that the origin has not been seen
  since the server started or the stream was created.
- `--json` (`-j`) prints the answer of the JetStream API. Questions, progress and errors go to standard
  error, so that a pipe contains only the answer.
- Questions are asked only if standard input and standard error are a terminal. Otherwise defaults are
  used, and actions that cannot be undone need `--force`.
- Long operations show a bar with rate and time left, or without a terminal, a line every two seconds.
- `stream report --svg` and `--png` draw with GraphViz's `dot` if it is installed. Without it, Headwater
  draws the SVG itself and refuses PNG.
- A backup is a directory with `backup.json` and `stream.tar.s2`, which the `nats` command reads and
  writes as well. The format of the archive is the server's own: Headwater restores archives of Headwater,
  nats-server those of nats-server. Files end in `.unfinished` until they are complete. A backup that
  fails or is stopped removes them.

## Exit codes

| code | means |
|---|---|
| 0 | success |
| 1 | an error, described in one sentence on standard error |
| 2 | a flag, a variable or an answer is missing or invalid |
| 130 | Ctrl-C stopped the command; unfinished work was undone |

Commands that run until Ctrl-C (`stream report --watch`, `stream graph`) exit with 0. `edit --dry-run`
exits with 1 if there are differences. `headwater check` has the exit codes of Nagios: 0 OK, 1 warning, 2
critical, 3 unknown.
"""


def commands_page() -> str:
    """Return the reference page of all commands, as Markdown."""
    lines = [_HEAD]
    for flag in FLAGS.values():
        names = ", ".join(f"`{name}`" for name in flag.names)
        variable, key = (f"`{text}`" if text else "" for text in (flag.variable, flag.key))
        lines.append(f"| {names} | {variable} | {key} | {flag.help} |")
    lines.append(_TAIL)
    lines += ["## Commands", ""]
    for name, command in sorted(headwater.commands.items()):
        lines += _command(command, name, _others(headwater, name), "###")
    return "\n".join(lines).rstrip() + "\n"


def _command(command: click.Command, path: str, others: list[str], level: str) -> Iterator[str]:
    yield f"{level} {path}"
    yield ""
    if others:
        yield f"Also: {', '.join(f'`{other}`' for other in others)}."
        yield ""
    arguments = [
        p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)
    ]
    usage = " ".join(
        ["headwater", path, *arguments, *(["COMMAND"] if isinstance(command, click.Group) else [])]
    )
    yield f"`{usage}`"
    yield ""
    yield from _paragraphs(command.help or "")
    yield from _flags(command)
    if command.epilog:
        yield from _paragraphs(command.epilog)
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _command(inner, f"{path} {name}", _others(command, name), level + "#")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a command's help; paragraphs after a `\\b` are preformatted."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        if lines[0] == "\b":
            yield from ["```", *lines[1:], "```", ""]
        else:
            yield from [*lines, ""]


def _flags(command: click.Command) -> Iterator[str]:
    if isinstance(command, GroupedCommand):
        yield "Its flags are the [settings](settings.md)."
        yield ""
        return
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    said = [option for option in options if option.name != "as_json"]
    if said:
        yield from ["| flag | meaning |", "|---|---|"]
        for option in said:
            record = option.get_help_record(click.Context(command))
            assert record is not None
            names, meaning = (text.replace("|", "\\|") for text in record)
            yield f"| `{names}` | {' '.join(meaning.split())} |"
        yield ""


def _others(group: click.Group, name: str) -> list[str]:
    aliases: dict[str, str] = getattr(group, "aliases", {})
    return sorted(alias for alias, meant in aliases.items() if meant == name)


if __name__ == "__main__":
    print(commands_page(), end="")
