"""The state that a stream loses with its checkpoint, and the part that its messages still contain.

The last message of each source says how far it was copied (`stream/copied_cursors`), as long as nothing but
limits removes messages.
"""

from __future__ import annotations

from pathlib import Path

from headwater.control import declaration
from headwater.disk import Disk
from headwater.errors import Error
from headwater.model.cursor import LOST, Cursor
from headwater.model.sealed import SealError
from headwater.model.stream import Retention, StreamConfig
from headwater.model.upstream import StreamSource
from headwater.wire import consumer_json


def recovered(
    source: StreamSource, config: StreamConfig, copied: dict[str, Cursor], is_empty: bool
) -> Cursor:
    """Return where a source without its cursor continues; if that is unknown, the engine refuses it."""
    if is_empty:
        return Cursor()
    found = copied.get(source.index_name)
    # Where messages leave once they are consumed, newer ones may have been here.
    if found is None or config.retention is not Retention.LIMITS:
        return Cursor(LOST, source.opt_start_seq)
    return found


def source_line(source: StreamSource, cursor: Cursor, copied: dict[str, Cursor]) -> str:
    """Return what a person should know about a source whose cursor was lost."""
    name = f"source {source.name!r}"
    if cursor.identity == LOST:
        found = copied.get(source.index_name)
        hint = f"; the last message that is still here has sequence {found.seq} there" if found else ""
        return (
            f"{name}: how far it was copied is lost, so it is not copied any further. Edit the stream and set"
            f" opt_start_seq of this source to the first sequence to copy{hint}"
        )
    if not cursor.seq:
        return f"{name}: it is copied from its start; nothing was copied before"
    return (
        f"{name}: it is copied from sequence {cursor.seq + 1} on, after the last message that is here."
        " Messages that were copied after that one and removed here are copied again"
    )


def consumer_lines(disk: Disk, home: Path) -> list[str]:
    """Return what happens to each consumer whose position was lost."""
    lines = []
    for file in declaration.newest(declaration.consumer_files(disk, home)).values():
        try:
            declared = declaration.read_consumer(disk, home, file)
            policy = str(consumer_json.decode_config(declared.config.encode()).deliver_policy)
        except (SealError, Error):
            continue
        what = f"consumer {declared.name!r}: its position is lost; it begins by its deliver policy ({policy})"
        if policy in ("all", "by_start_sequence", "by_start_time"):
            lines.append(f"{what}, so messages that it had acknowledged are delivered again")
        else:
            lines.append(f"{what}, so older messages that it had not acknowledged are NOT delivered")
    return lines


def log_line(last_seq: int) -> str:
    """Return what a person should know about a stream whose log lost its end."""
    return (
        "the end of its log is missing: messages in it that the table does not have are lost, and acked ones"
        f" may be delivered again. So that no sequence is used twice, it continues at {last_seq + 1}"
    )
