"""Detecting an origin that lost its end and grew again: copied sequences now belong to other messages.

They are recognized by their times: a message that is later than everything copied was stored after it. A
server that lost power may lose unsynced messages, and assigns their sequences again.
"""

from __future__ import annotations

from typing import Any

from headwater.errors import BusError
from headwater.model.cursor import Cursor
from headwater.model.times import format_time, parse_time
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, NoResponderError


def lost_end(stream: str) -> str:
    """Return the text of the error."""
    return f"stream {stream!r} has lost its last messages and reused their sequences for others"


def query_after(ts: int) -> dict[str, Any]:
    """Return the request for a stream's first message that is later than a time."""
    return {"start_time": format_time(ts + 1)}


def is_lost(cursor: Cursor, message: dict[str, Any]) -> bool:
    """Return whether a message of the origin is at or below the cursor and was not copied."""
    seq, ts = int(message["seq"]), parse_time(message["time"]) or 0
    return seq <= cursor.seq and not cursor.covers(seq, ts)


def check_covered(client: BlockingClient, origin: NatsOrigin) -> None:
    """Raise an error if the origin has lost messages that were copied before, possibly during this read.

    An origin that does not show single messages cannot be checked.
    """
    cursor = Cursor(origin.identity, origin.covered_seq, origin.covered_ts)
    if not cursor.ts:
        return
    subject = f"{origin.api_prefix}.STREAM.MSG.GET.{origin.stream}"
    for query in ({"seq": cursor.seq}, query_after(cursor.ts)):
        try:
            answer = client.request(subject, query)
        except NoResponderError:
            return
        if "error" in answer:
            continue  # the message was removed, or the server is too old for this
        if is_lost(cursor, answer["message"]):
            raise BusError(lost_end(origin.stream))
        return
