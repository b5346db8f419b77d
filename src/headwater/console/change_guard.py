"""What a request needs to change anything: the console's permission and the token of its own form."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.exceptions import HTTPException
from starlette.requests import Request

from headwater.console.access import COOKIE
from headwater.console.application import console_of
from headwater.console.forms import form_fields

TOKEN_FIELD = "form_token"
_SECRET = secrets.token_bytes(32)


def form_token(request: Request) -> str:
    """Return what a form must send back: pages of other sites cannot read it."""
    session = request.cookies.get(COOKIE, "").encode()
    return hmac.new(_SECRET, b"form " + session, hashlib.sha256).hexdigest()


def require_permission(request: Request) -> None:
    """Refuse a page of changes if the console may not change anything."""
    if not console_of(request).allow_changes:
        raise HTTPException(403, "this console is read only: start it with --allow-changes")


async def permitted_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form that may change something."""
    require_permission(request)
    fields = await form_fields(request)
    if not hmac.compare_digest(fields.pop(TOKEN_FIELD, "").encode(), form_token(request).encode()):
        raise HTTPException(403, "the form is too old or not from this console: open it again")
    return fields
