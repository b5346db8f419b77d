"""What a change says in the log beside its messages: sums of removals, consumers' states, cursors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from pyroaring import BitMap64

from headwater.model.adopted import Adopted
from headwater.stream.removal import Removal

_NOBODY: Mapping[str, bytes] = {}

GONE = b""
"""The change of a consumer that was deleted."""


class Notes(msgspec.Struct, array_like=True, frozen=True):
    """The notes of one batch; consumers' changes and cursors are opaque here."""

    removed_size: int = 0
    removed_subjects: dict[bytes, int] = {}
    removed_everything: bool = False
    consumers: dict[str, bytes] = {}
    upstreams: dict[str, bytes] = {}
    adopted: tuple[Adopted, ...] = ()

    def removal(self, seqs: BitMap64 | None) -> Removal:
        """Return the removal whose sequences stand beside these notes."""
        subjects = Counter(self.removed_subjects)
        return Removal(seqs or BitMap64(), self.removed_size, subjects, self.removed_everything)


def encode(
    removal: Removal | None,
    consumers: Mapping[str, bytes] = _NOBODY,
    upstreams: Mapping[str, bytes] = _NOBODY,
    adopted: Sequence[Adopted] = (),
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
    )
    return _encoder.encode(notes)


def decode(encoded: bytes) -> Notes:
    """Return the notes of a batch."""
    return _decoder.decode(encoded) if encoded else _NOTHING


_NOTHING = Notes()
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Notes)
