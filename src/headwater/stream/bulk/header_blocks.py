"""The header blocks of many messages, checked together: almost all of a bulk write have an id or nothing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model import headers as header_block

_ID_ONLY = b"%s\r\n%s: " % (header_block.VERSION, header_block.MESSAGE_ID)
_END = b"\r\n\r\n"
_RULED = b"\r\nNats-"
"""Before the name of each header that the rules of publishing look at."""
_ID = b"\r\n%s:" % header_block.MESSAGE_ID


class HeaderBlocks:
    """The header block of each message; a null is none."""

    def __init__(self, blocks: pa.BinaryArray) -> None:
        self._blocks = blocks
        # One line between the first line and the end, and that is the line of an id.
        is_id = pc.and_(pc.starts_with(blocks, _ID_ONLY), pc.ends_with(blocks, _END))
        is_id = pc.and_(is_id, pc.equal(pc.count_substring(blocks, b"\r\n"), 3))
        self._is_id = pc.fill_null(is_id, fill_value=False)
        others = blocks.filter(pc.invert(self._is_id)).drop_null().to_pylist()
        self.are_valid = all(header_block.valid(block) for block in others)
        """Whether each of them is a header block."""
        self.are_ruled = any(_is_ruled(block) for block in others)
        """Whether one has a header, other than one id, that the rules of publishing look at."""
        self.have_ids = pc.any(self._is_id).as_py() or any(_ID in block for block in others)
        """Whether one of them has an id."""

    @property
    def last_id(self) -> bytes:
        """Return the id of the last message, empty if it has none."""
        return _id_of(self._blocks[-1].as_py())

    def ids(self) -> list[bytes]:
        """Return the id of each message, empty if it has none."""
        if not self.have_ids:
            return [b""] * len(self._blocks)
        if pc.all(self._is_id).as_py():
            ids = pc.binary_slice(self._blocks, len(_ID_ONLY), -len(_END))
            return [each.lstrip(b" ") for each in ids.to_pylist()]
        return [_id_of(block) for block in self._blocks.to_pylist()]


def _id_of(block: bytes | None) -> bytes:
    return header_block.get(block or b"", header_block.MESSAGE_ID) or b""


def _is_ruled(block: bytes) -> bool:
    return block.count(_RULED) > int(_ID in block)
