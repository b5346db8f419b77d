"""The flow control window of a push consumer: how much may be in flight before the client must reply."""

from __future__ import annotations

import secrets
import string

_FIRST_WINDOW = 2 << 20
_LARGEST_WINDOW = 32 << 20
_LETTERS = string.ascii_letters + string.digits


class FlowControl:
    """Bytes sent since the last answered request, within a window that doubles with each reply."""

    def __init__(self, stream: str, consumer: str) -> None:
        self.prefix = f"$JS.FC.{stream}.{consumer}.".encode()
        """The beginning of the subjects on which clients answer."""
        self._window = _FIRST_WINDOW
        """How many bytes may be unconfirmed."""
        self._unconfirmed = 0
        """Bytes sent since the last answered request."""
        self._asked_for = 0
        """How many of them the outstanding request covers."""
        self.outstanding = b""
        """The subject of the outstanding request, if there is one."""

    @property
    def is_open(self) -> bool:
        """Return whether more may be sent."""
        return self._unconfirmed <= self._window

    def sent(self, size: int) -> bytes | None:
        """Count sent bytes; return the subject of a flow control request if one is due."""
        self._unconfirmed += size
        if self.outstanding and self._unconfirmed - self._asked_for >= self._window:
            # Far beyond the window: have the reply cover this as well, or the window would never open again.
            self._asked_for += size
        if self.outstanding or self._unconfirmed <= self._window // 2:
            return None
        return self.ask()

    def ask(self) -> bytes:
        """Return the subject of a request that is sent now; only the newest one counts."""
        self._asked_for = self._unconfirmed
        self.outstanding = self.prefix + "".join(secrets.choice(_LETTERS) for _ in range(4)).encode()
        return self.outstanding

    def answered(self, subject: bytes) -> bool:
        """Process a reply; return whether it was the expected one."""
        if not self.outstanding or subject != self.outstanding:
            return False
        self._unconfirmed = max(self._unconfirmed - self._asked_for, 0)
        self._asked_for = 0
        self._window = min(self._window * 2, _LARGEST_WINDOW)
        self.outstanding = b""
        return True

    def reset(self) -> None:
        """Begin again: the subscriber is gone."""
        self._window = _FIRST_WINDOW
        self._unconfirmed = self._asked_for = 0
        self.outstanding = b""
