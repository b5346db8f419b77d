"""The reference page of the command line, written from the commands themselves."""

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

`headwater` follows the `nats` command: the same commands, flags, variables and context files. Commands that
look at streams and consumers speak the JetStream API, to Headwater and to a plain nats-server alike.

## Where a command connects

These flags stand before the command or after it. A flag wins over its variable, that over the context
(`--context`, else the one that `headwater context select` chose), that over the default.

| flag | variable | key in a context file | meaning |
|---|---|---|---|"""

_TAIL = """\

## What a command writes

- Tables fit the terminal, or the number in `COLUMNS`. Where they do not, columns that say nothing go first;
  a column that is left out although it says something is named below the table. In a pipe nothing is wrapped
  and nothing is coloured; `NO_COLOR` takes the colour off a terminal too.
- In reports lag, the time since an origin was heard of, and errors are coloured: yellow from one message of
  lag or 30 seconds of silence, red from 1,000 messages or 2 minutes. `never` means that the origin has not
  been heard of since the server or the stream began.
- `--json` (`-j`) answers with what the JetStream API said. Questions, progress and errors go to standard
  error, so that a pipe gets the answer alone.
- Questions are asked only when standard input and standard error are a terminal; else defaults are taken,
  and what cannot be undone wants `--force`.
- Long work shows a bar with rate and time left; without a terminal a line every two seconds.
- `stream report --svg` and `--png` draw with the program `dot` of GraphViz where it is installed. Without it
  SVG is drawn by Headwater itself, and PNG is refused.
- A backup is a directory with `backup.json` and `stream.tar.s2`, which the `nats` command reads and writes
  as well. What is inside is the server's own: an archive of Headwater is restored by Headwater, one of
  nats-server by nats-server. Until all has arrived the files end in `.unfinished`; a backup that fails or is
  stopped removes them.

## Exit codes

| code | means |
|---|---|
| 0 | the command did its work |
| 1 | an error, said in one sentence on standard error |
| 2 | a flag, a variable or an answer is missing or has no sense |
| 130 | Ctrl-C stopped the command; what it had begun was undone |

Views that end no other way than by Ctrl-C (`stream report --watch`, `stream graph`) leave with 0.
`headwater check` has the codes of Nagios instead: 0 fine, 1 warning, 2 critical, 3 unknown.
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
    """Yield a command's help; what stands below a `\\b` is laid out by hand and stays so."""
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
