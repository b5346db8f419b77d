"""The commands of `headwater stream` and their aliases."""

from __future__ import annotations

from headwater.cli.cluster import cluster
from headwater.cli.stream.add import add, copy, edit
from headwater.cli.stream.archive import backup, restore
from headwater.cli.stream.catch_up import catch_up
from headwater.cli.stream.find import find
from headwater.cli.stream.graph import graph
from headwater.cli.stream.messages import gaps, get, purge, rmm, view
from headwater.cli.stream.report import report
from headwater.cli.stream.schema import schema
from headwater.cli.stream.streams import stream

_ALIASES = {
    "add": ("create", "new"),
    "edit": ("update",),
    "copy": ("cp",),
    "ls": ("list", "l"),
    "info": ("nfo", "i"),
    "subjects": ("subj",),
    "find": ("query",),
    "rm": ("delete", "del"),
    "backup": ("snapshot",),
}

for command in (
    add,
    copy,
    edit,
    backup,
    restore,
    find,
    graph,
    gaps,
    get,
    purge,
    rmm,
    view,
    report,
    schema,
    cluster,
    catch_up,
):
    stream.add_command(command)
for name, others in _ALIASES.items():
    stream.alias(name, *others)

__all__ = ["stream"]
