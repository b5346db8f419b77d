"""The requests of DIRECT.GET, and the statuses that refuse them."""

from __future__ import annotations

import msgspec

from headwater.errors import Error
from headwater.model import headers, times
from headwater.model.api_level import level_is_enough


class DirectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request; unlike in other requests unknown fields are ignored."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: str | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: int = 0
    up_to_time: str | None = None
    no_hdr: bool = False


class Refusal(Error):
    """A request is answered with a status instead of a message."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.status = headers.build(code=code, description=description.encode())


_DECODER = msgspec.json.Decoder(DirectRequest)


def parse(subject: bytes, body: bytes, header: bytes) -> DirectRequest:
    """Return the request: `subject` is the one after the stream's name, if any."""
    if not level_is_enough(header):
        raise Refusal(412, "Required Api Level")
    request = DirectRequest() if subject and not body else _decode(body)
    if subject:
        only = DirectRequest(max_bytes=request.max_bytes, no_hdr=request.no_hdr)
        if request != only:
            raise Refusal(408, "Bad Request")
        return msgspec.structs.replace(request, last_by_subj=subject.decode(errors="replace"))
    asked = (request.seq, request.last_by_subj, request.next_by_subj, request.multi_last, request.start_time)
    if not any(asked):
        raise Refusal(408, "Empty Request")
    if _conflicts(request):
        raise Refusal(408, "Bad Request")
    return request


def _decode(body: bytes) -> DirectRequest:
    if not body:
        raise Refusal(408, "Empty Request")
    try:
        request = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refusal(408, "Malformed Request") from None
    for moment in (request.start_time, request.up_to_time):
        if moment is not None and times.parse_time(moment) is None:
            raise Refusal(408, "Malformed Request")
    unsigned, signed = (request.seq, request.up_to_seq), (request.batch, request.max_bytes)
    if not all(0 <= n < 2**64 for n in unsigned) or not all(-(2**63) <= n < 2**63 for n in signed):
        raise Refusal(408, "Malformed Request")
    return request


def _conflicts(request: DirectRequest) -> bool:
    seq, last, following = request.seq > 0, bool(request.last_by_subj), bool(request.next_by_subj)
    timed, multi = request.start_time is not None, bool(request.multi_last)
    return (
        seq + last + timed > 1
        or (last and (following or request.batch > 0))
        or (multi and (last or following))
        or (request.up_to_seq > 0 and request.up_to_time is not None)
    )
