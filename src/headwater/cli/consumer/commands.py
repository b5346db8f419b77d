"""The commands of `headwater consumer` and their aliases."""

from __future__ import annotations

from headwater.cli.consumer.add import add, copy, edit
from headwater.cli.consumer.consumers import consumer
from headwater.cli.consumer.find import find
from headwater.cli.consumer.messages import next_, sub

_ALIASES = {
    "add": ("create", "new"),
    "edit": ("update",),
    "copy": ("cp",),
    "find": ("query",),
    "ls": ("list", "l"),
    "info": ("nfo", "i"),
    "rm": ("delete", "del"),
}

_EXAMPLES = {
    "add": (
        "headwater consumer add ORDERS WORK --pull --defaults",
        "headwater consumer add ORDERS AUDIT --target audit.orders --deliver 1h --filter 'orders.eu.>'",
        "headwater consumer add ORDERS --config work.json",
        "headwater consumer add ORDERS --ephemeral --pull --defaults",
    ),
    "copy": ("headwater consumer copy ORDERS WORK WORK2 --max-deliver 5",),
    "edit": (
        "headwater consumer edit ORDERS WORK --max-pending 500 --force",
        "headwater consumer edit ORDERS WORK --description 'the workers' --dry-run",
    ),
    "find": (
        "headwater consumer find ORDERS --pull --idle 1h",
        "headwater consumer find ORDERS --expression 'state.num_pending > 1000' --names",
    ),
    "info": ("headwater consumer info ORDERS WORK", "headwater consumer info ORDERS WORK --json"),
    "ls": ("headwater consumer ls ORDERS", "headwater consumer ls ORDERS --names"),
    "next": (
        "headwater consumer next ORDERS WORK",
        "headwater consumer next ORDERS WORK --count 10 --raw --timeout 30s",
        "headwater consumer next ORDERS WORK --nak",
    ),
    "pause": (
        "headwater consumer pause ORDERS WORK 1h30m",
        "headwater consumer pause ORDERS WORK '2026-01-31 12:00:00' --force",
    ),
    "report": ("headwater consumer report ORDERS",),
    "resume": ("headwater consumer resume ORDERS WORK --force",),
    "rm": ("headwater consumer rm ORDERS WORK", "headwater consumer rm ORDERS WORK --force"),
    "state": ("headwater consumer state ORDERS WORK",),
    "sub": (
        "headwater consumer sub ORDERS WORK",
        "headwater consumer sub ORDERS AUDIT --no-ack --count 5 --json",
    ),
    "unpin": ("headwater consumer unpin ORDERS WORK readers --force",),
}

for command in (add, copy, edit, find, next_, sub):
    consumer.add_command(command)
for name, examples in _EXAMPLES.items():
    consumer.commands[name].epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
for name, others in _ALIASES.items():
    consumer.alias(name, *others)

__all__ = ["consumer"]
