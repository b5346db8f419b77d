"""An origin that has lost its end and grown again: other messages stand under sequences that were copied.

They are told by their times: whatever has a later one than all that was copied was stored after it. A server
that lost power may lose what it had not synced, and assigns the same sequences again.
"""

from __future__ import annotations

from typing import Any

from headwater.errors import BusError
from headwater.model.cursor import Cursor
from headwater.model.times import format_time, parse_time
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, NoResponderError


def lost_end(stream: str) -> str:
    """Return the sentence that says so."""
    return f"stream {stream!r} has lost its last messages, and has others under their sequences"


def question_after(ts: int) -> dict[str, Any]:
    """Return what asks a stream for its first message that is later than a time."""
    return {"start_time": format_time(ts + 1)}


def is_lost(cursor: Cursor, message: dict[str, Any]) -> bool:
    """Return whether a message that the origin shows lies under the cursor and was not copied."""
    seq, ts = int(message["seq"]), parse_time(message["time"]) or 0
    return seq <= cursor.seq and not cursor.covers(seq, ts)


def check_covered(client: BlockingClient, origin: NatsOrigin) -> None:
    """Refuse what was read of an origin that has lost what was copied before, also just now.

    An origin that does not show single messages cannot be asked.
    """
    cursor = Cursor(origin.identity, origin.covered_seq, origin.covered_ts)
    if not cursor.ts:
        return
    subject = f"{origin.api_prefix}.STREAM.MSG.GET.{origin.stream}"
    for question in ({"seq": cursor.seq}, question_after(cursor.ts)):
        try:
            answer = client.request(subject, question)
        except NoResponderError:
            return
        if "error" in answer:
            continue  # it is not there any more, or the server is too old for this
        if is_lost(cursor, answer["message"]):
            raise BusError(lost_end(origin.stream))
        return
