"""The handlers of requests about single messages."""

from __future__ import annotations

import base64

from headwater.api.context import ApiContext
from headwater.api.request import Request
from headwater.errors import api_error
from headwater.model.message import Message
from headwater.model.stream import Storage
from headwater.model.times import format_time
from headwater.stream.stream import Stream
from headwater.wire import go_json
from headwater.wire.go_json import array, boolean, int_, string, uint64
from headwater.wire.stream_json import Json

_GET_FIELDS = {
    "seq": uint64,
    "last_by_subj": string,
    "next_by_subj": string,
    "batch": int_,
    "max_bytes": int_,
    "start_time": go_json.time,
    "multi_last": array(string, "[]string", null=""),
    "up_to_seq": uint64,
    "up_to_time": go_json.time,
    "no_hdr": boolean,
}
_DELETE_FIELDS = {"seq": uint64, "no_erase": boolean}


async def get(context: ApiContext, request: Request) -> Json:
    """Return one message: by sequence, the last or the next of a subject, or the first at or after a time."""
    asked = request.decode(_GET_FIELDS, "JSApiMsgGetRequest")
    seq, start_time = asked.get("seq", 0), asked.get("start_time")
    last, following = asked.get("last_by_subj", ""), asked.get("next_by_subj", "")
    ways = (bool(seq), bool(last), start_time is not None)
    if (
        asked.get("batch", 0) > 0
        or asked.get("max_bytes", 0) > 0
        or sum(ways) > 1
        or not (any(ways) or following)
        or (last and following)
    ):
        raise api_error("bad_request")
    stream = context.domain.stream(request.stream)
    if start_time is not None:
        seq = await stream.reading.seq_at(start_time)
    message = await _find(stream, seq, last, following)
    if message is None:
        raise api_error("no_message_found")
    return {"message": _message_json(message, with_headers=not asked.get("no_hdr"))}


async def _find(stream: Stream, seq: int, last: str, following: str) -> Message | None:
    if following:
        return await stream.reading.next(following, seq)
    if last:
        return await stream.reading.last(last)
    return await stream.reading.message(seq)


def _message_json(message: Message, *, with_headers: bool) -> Json:
    shown: Json = {"subject": message.subject.decode(errors="replace"), "seq": message.seq}
    if message.headers and with_headers:
        shown["hdrs"] = base64.b64encode(message.headers).decode()
    if message.data:
        shown["data"] = base64.b64encode(message.data).decode()
    shown["time"] = format_time(message.ts)
    return shown


async def delete(context: ApiContext, request: Request) -> Json:
    """Remove one message; compaction removes its bytes like those of all removed messages."""
    asked = request.decode(_DELETE_FIELDS, "JSApiMsgDeleteRequest")
    stream = context.domain.stream(request.stream)
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_delete:
        raise api_error("stream_msg_delete_failed", err="message delete not permitted")
    seq = asked.get("seq", 0)
    if not seq or not await stream.retention.remove(seq, erase=not asked.get("no_erase", False)):
        raise await _not_removed(stream, seq)
    return {"success": True}


async def _not_removed(stream: Stream, seq: int) -> Exception:
    """Return the error for a sequence without a message; as in nats-server it depends on the storage."""
    if stream.config.storage is Storage.FILE:
        state = await stream.reading.state()
        if seq < state.first_seq:
            return api_error("stream_msg_delete_failed", err="no message found")
        if seq > state.last_seq:
            return api_error("stream_msg_delete_failed", err="stream store EOF")
    return api_error("sequence_not_found", seq=seq)
