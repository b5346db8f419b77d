"""Forms are read within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headwater.console.forms import MOST_BYTES, form_fields

KIND = b"application/x-www-form-urlencoded; charset=utf-8"


def posted(body: bytes, kind: bytes = KIND) -> Request:
    """Return a request that posts a body."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind)]}, receive)


async def test_fields_are_decoded_and_empty_ones_kept() -> None:
    assert await form_fields(posted(b"name=a%20b&note=&name=c")) == {"name": "c", "note": ""}


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"a=b", b"text/plain", 415),
        (b"a" * (MOST_BYTES + 1), KIND, 413),
        (b"&".join(b"a%d=1" % place for place in range(300)), KIND, 400),
        (b"\xff\xfe", KIND, 400),
    ],
)
async def test_other_bodies_are_refused(body: bytes, kind: bytes, status: int) -> None:
    with pytest.raises(HTTPException) as caught:
        await form_fields(posted(body, kind))
    assert caught.value.status_code == status
