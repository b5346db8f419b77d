"""Bytes to and from Parquet: a sink with a checksum, and a range of a file that acts as the file."""

from __future__ import annotations

from io import FileIO

from headwater.checksum import crc32
from headwater.table.direct_file import DirectFile


class ChecksumSink:
    """A file being written, with its length and the CRC-32 of what was written since the last call."""

    def __init__(self, file: FileIO | DirectFile) -> None:
        self._file = file
        self._crc = 0
        self._held: list[bytes] | None = None
        """Written parts that are kept to be read back; None if none is."""
        self.size = 0

    @property
    def closed(self) -> bool:
        """Return whether the file is closed."""
        return self._file.closed

    def write(self, data: bytes | memoryview) -> int:
        """Write all of the data."""
        if self._held is not None:
            self._held.append(bytes(data))
            return len(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]
        self._crc = crc32(data, self._crc)
        self.size += len(data)
        return len(data)

    def hold(self) -> None:
        """Buffer what is written from now on."""
        self._held = []

    def release(self) -> bytes:
        """Return what was buffered, for the caller to write."""
        held, self._held = self._held or [], None
        return b"".join(held)

    def take_crc(self) -> int:
        """Return the checksum of what was written since this was last asked."""
        crc, self._crc = self._crc, 0
        return crc

    def tell(self) -> int:
        """Return the length of the file so far."""
        return self.size

    def flush(self) -> None:
        """Do nothing: the operating system has what was written."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ByteRange:
    """A range of a file in memory, read at the offsets of the file."""

    def __init__(self, content: bytes | memoryview, start: int) -> None:
        self._content = memoryview(content)
        self._start = start
        self._at = 0
        """The position in the file of the next read."""
        self.closed = False

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset of the file; its end is where the range ends."""
        assert whence in (0, 2)
        self._at = offset if whence == 0 else self._start + len(self._content) + offset
        return self._at

    def tell(self) -> int:
        """Return the offset in the file."""
        return self._at

    def read(self, length: int) -> memoryview:
        """Return the bytes at this offset, not copied."""
        begin = self._at - self._start
        assert begin >= 0, "only the range is read"
        piece = self._content[begin : begin + length]
        self._at += len(piece)
        return piece

    def close(self) -> None:
        """Release the bytes."""
        self.closed = True
