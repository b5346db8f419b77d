"""Small JSON files with a version and a checksum over their content.

A sealed file is `{"version":<n>,"crc32":"<8 hex digits>","value":<JSON>}`. The checksum covers the version
and the exact bytes of the value, so that every damaged byte either makes no difference or is detected.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from headwater.checksum import crc32
from headwater.errors import Error, NewerFormatError

_T = TypeVar("_T")


class SealError(Error):
    """A sealed file is damaged, or of a version that this release does not know."""


class NewerSealError(SealError):
    """A sealed file of a newer release: it is intact, and must not be replaced."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"it has version {found}: it was written by a newer release; start that one")
        self.found = found
        self.known = known

    def of(self, what: str) -> NewerFormatError:
        """Return the error with which the user of this file is refused."""
        return NewerFormatError(what, self.found, self.known)


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    crc32: str
    value: msgspec.Raw


def seal(value: object, version: int) -> bytes:
    """Return the content of a file with this value."""
    body = msgspec.json.encode(value)
    return b'{"version":%d,"crc32":"%08x","value":%b}\n' % (version, _sum(body, version), body)


def unseal(content: bytes, kind: type[_T], version: int) -> _T:
    """Return the value of a file that was sealed with this version or an older one."""
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        expected = int(envelope.crc32, 16)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise SealError(f"it is damaged: {error}") from error
    if _sum(bytes(envelope.value), envelope.version) != expected:
        raise SealError("it is damaged: its checksum does not match")
    if envelope.version > version:
        raise NewerSealError(envelope.version, version)
    try:
        return msgspec.json.decode(envelope.value, type=kind)
    except msgspec.MsgspecError as error:
        raise SealError(f"its content is invalid: {error}") from error


def _sum(body: bytes, version: int) -> int:
    return crc32(body, crc32(b"%d:" % version))
