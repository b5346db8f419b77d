"""The notes of a batch in the log: sums of removals, consumers' states, cursors, adopted files and their ids.

Notes of version 1 are a msgpack array. From version 2 on, a byte with the version precedes it, which no array
begins with. Notes with ids have version 3, all others version 2. A new field here, in `Adopted`, `MessageIds`
or `Copied` is a new version: an older engine must refuse what it would misread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from pyroaring import BitMap64

from headwater.errors import NewerFormatError
from headwater.model.adopted import Adopted
from headwater.model.message_ids import MessageIds
from headwater.stream.retention.removal import Removal

_UNCHANGED: Mapping[str, bytes] = {}

VERSION = 3
_WITHOUT_IDS = 2
_ARRAYS = range(0x90, 0xA0)
"""What notes of version 1 begin with."""
GONE = b""
"""The change of a consumer that was deleted."""


class Notes(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The notes of one batch; consumers' changes and cursors are opaque here."""

    removed_size: int = 0
    removed_subjects: dict[bytes, int] = {}
    removed_everything: bool = False
    consumers: dict[str, bytes] = {}
    upstreams: dict[str, bytes] = {}
    adopted: tuple[Adopted, ...] = ()
    ids: tuple[MessageIds, ...] = ()
    """The ids of the messages in each adopted file; empty if none of them has an id to remember."""

    def removal(self, seqs: BitMap64 | None) -> Removal:
        """Return the removal whose sequences are in the same batch as these notes."""
        subjects = Counter(self.removed_subjects)
        return Removal(seqs or BitMap64(), self.removed_size, subjects, self.removed_everything)


def encode(
    removal: Removal | None,
    consumers: Mapping[str, bytes] = _UNCHANGED,
    upstreams: Mapping[str, bytes] = _UNCHANGED,
    adopted: Sequence[Adopted] = (),
    ids: Sequence[MessageIds] = (),
) -> bytes:
    """Return the notes as bytes, nothing if there is nothing to say."""
    if not (removal or consumers or upstreams or adopted):
        return b""
    removal = removal or Removal()
    notes = Notes(
        removal.size,
        dict(removal.subjects),
        removal.everything,
        dict(consumers),
        dict(upstreams),
        tuple(adopted),
        tuple(ids),
    )
    encoded = _encoder.encode(notes if ids else msgspec.structs.astuple(notes)[:-1])
    return bytes([VERSION if ids else _WITHOUT_IDS]) + encoded


def decode(encoded: bytes) -> Notes:
    """Return the notes of a batch; refuse those of a newer release."""
    if not encoded:
        return _NOTHING
    if encoded[0] in _ARRAYS:
        return _decoder.decode(encoded)
    if encoded[0] not in (_WITHOUT_IDS, VERSION):
        raise NewerFormatError("the notes of a batch", encoded[0], VERSION)
    return _decoder.decode(memoryview(encoded)[1:])


_NOTHING = Notes()
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Notes)
