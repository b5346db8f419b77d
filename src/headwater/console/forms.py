"""The fields of a form that a browser posted, bounded in size."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

MOST_BYTES = 1024 * 1024
MOST_FIELDS = 200
_KIND = "application/x-www-form-urlencoded"


async def form_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a repeated one the last."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _KIND:
        raise HTTPException(415, f"a form must be sent as {_KIND}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, "the form is too large")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None
