"""Proof that a request or an answer comes from a peer that knows a store's secret, and that it is new.

    request = version | MAC | run of the engine | sender | count | body
    answer   = version | MAC | body
    refusal  = 0       | run of the engine

The MAC of a request covers its subject and its reply subject, so that no third party can redirect the
answer. A sender numbers its requests, and the engine accepts each number once. The run is random at each
start of an engine, so that requests from before the start are refused. A replicator learns the run from a
refusal. A refusal needs no proof, since a request with a false run is worthless to the real engine.

The MAC of an answer covers the request's MAC, so that an answer fits one request only. A MAC encrypts
nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from headwater.errors import Error

VERSION = b"\x01"
_REFUSED = b"\x00"
_MAC = 32
_RUN = 16
_SENDER = 16
_COUNT = 8
_HEAD = len(VERSION) + _MAC + _RUN + _SENDER + _COUNT
SENDERS = 1_000
"""How many senders are remembered."""
WINDOW = 1_000
"""How many later requests of the same sender may arrive before a request."""


class UnprovenError(Error):
    """An answer or a refusal without a valid proof: from a stranger, or with another secret."""

    retryable = True

    def __init__(self, problem: str, *, is_refusal: bool = False) -> None:
        super().__init__(problem)
        self.is_refusal = is_refusal
        """Whether the request may be sent again at once, because the engine's run is known now."""


class Prover:
    """The asking side; the secret is read for each request, since the engine may have a new one."""

    def __init__(self, secret: Callable[[], bytes]) -> None:
        self._secret = secret
        """Returns the secret that the engine's configuration has now."""
        self._run = bytes(_RUN)
        """The engine's run, zeros until it is known."""
        self._sender = secrets.token_bytes(_SENDER)
        """A random name, so that the engine can count our requests."""
        self._count = 0
        """The number of the last request; each is accepted once."""

    def request(self, subject: bytes, reply: bytes, body: bytes) -> bytes:
        """Return a request as it is sent, to be answered on `reply`."""
        self._count += 1
        plain = self._run + self._sender + self._count.to_bytes(_COUNT) + body
        return VERSION + _mac(self._secret(), b"question", subject, reply, plain) + plain

    def answer(self, request: bytes, answer: bytes) -> bytes:
        """Return the body of the answer to a request."""
        if answer[:1] == _REFUSED and len(answer) == len(_REFUSED) + _RUN:
            is_new = answer[1:] != self._run
            self._run = answer[1:]
            raise UnprovenError("the engine refuses the request: its secret differs", is_refusal=is_new)
        head, body = answer[: 1 + _MAC], answer[1 + _MAC :]
        mac = _mac(self._secret(), b"answer", _mac_of(request), body)
        if not hmac.compare_digest(head, VERSION + mac):
            raise UnprovenError("the answer lacks a valid proof of the engine's secret")
        return body


class Proven(NamedTuple):
    """A request that was proven to be a replicator's, and new."""

    body: bytes
    mac: bytes
    """The MAC that its answer must cover."""


class ProofCheck:
    """The engine's side: accepts each request once, and only with a proof of the secret."""

    def __init__(self, secret: bytes) -> None:
        # Without a secret no request can be proven: none is accepted.
        self._secret = secret or secrets.token_bytes(_MAC)
        self._run = secrets.token_bytes(_RUN)
        """Random at each start: requests to an earlier run are refused."""
        self._seen: OrderedDict[bytes, set[int]] = OrderedDict()
        """The numbers of each sender's latest requests."""

    def request(self, subject: bytes, reply: bytes, data: bytes) -> Proven | None:
        """Return a proven request, or None."""
        if len(data) < _HEAD or data[:1] != VERSION:
            return None
        mac, plain = _mac_of(data), data[1 + _MAC :]
        if not hmac.compare_digest(mac, _mac(self._secret, b"question", subject, reply, plain)):
            return None
        run, sender = plain[:_RUN], plain[_RUN : _RUN + _SENDER]
        count = int.from_bytes(plain[_RUN + _SENDER : _RUN + _SENDER + _COUNT])
        if run != self._run or not self._is_new(sender, count):
            return None
        return Proven(plain[_RUN + _SENDER + _COUNT :], mac)

    def answer(self, request: Proven, body: bytes) -> bytes:
        """Return an answer as it is sent."""
        return VERSION + _mac(self._secret, b"answer", request.mac, body) + body

    @property
    def refusal(self) -> bytes:
        """Return the answer to an unproven request."""
        return _REFUSED + self._run

    def _is_new(self, sender: bytes, count: int) -> bool:
        seen = self._seen.setdefault(sender, set())
        self._seen.move_to_end(sender)
        if count in seen or count <= max(seen, default=0) - WINDOW:
            return False
        seen.add(count)
        if len(seen) > 2 * WINDOW:
            seen -= {each for each in seen if each <= max(seen) - WINDOW}
        if len(self._seen) > SENDERS:
            self._seen.popitem(last=False)
        return True


def _mac_of(request: bytes) -> bytes:
    return request[1 : 1 + _MAC]


def _mac(secret: bytes, *parts: bytes) -> bytes:
    """Return the MAC over the parts; each part's length is included, so that parts cannot run together."""
    lengths = b"".join(len(part).to_bytes(8) for part in parts)
    return hmac.digest(secret, VERSION + lengths + b"".join(parts), "sha256")
