"""CRC-32, the checksum of everything we store: by ISA-L where it is there, which is many times faster."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this kind of machine; the sums are the same
    from zlib import crc32

__all__ = ["crc32"]
