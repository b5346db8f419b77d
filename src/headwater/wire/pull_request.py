"""The bodies of pull requests, decoded like nats-server does."""

from __future__ import annotations

import re
from typing import Any

from headwater.errors import ApiError, Error
from headwater.model.consumer import PullRequest
from headwater.wire import go_json
from headwater.wire.go_json import boolean, duration, int64, int_, string

_FIELDS = {
    "batch": int_,
    "expires": duration,
    "max_bytes": int_,
    "no_wait": boolean,
    "idle_heartbeat": duration,
    "group": string,
    "min_pending": int64,
    "min_ack_pending": int64,
    "id": string,
    "priority": int_,
}
_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")
_ONE = PullRequest()


class BadPullRequestError(Error):
    """A malformed pull request; the text follows the first words of the status 400."""


def parse_pull_request(body: bytes) -> PullRequest:
    """Return the request in the body; one that is neither a number nor an object requests one message."""
    body = body.strip()
    if body.startswith(b"{"):
        return _formal(body)
    if _NUMBER.fullmatch(body):
        return PullRequest(batch=int(body))
    return _ONE


def _formal(body: bytes) -> PullRequest:
    try:
        members: dict[str, Any] = go_json.decode_one(body, _FIELDS, "")
    except ApiError as error:
        raise BadPullRequestError(_reason(error)) from None
    request = PullRequest(**{"batch": 0} | members, formal=True)
    if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
        raise BadPullRequestError("heartbeat value too large")
    return request


def _reason(error: ApiError) -> str:
    """Return the error with the text of Go's decoder for complete bodies, which has no offset."""
    text = error.description.removeprefix("invalid JSON: ")
    if text == "unexpected EOF":
        return "unexpected end of JSON input"
    return re.sub(r" at offset \d+$", "", text)
