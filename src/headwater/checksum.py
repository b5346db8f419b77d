"""CRC-32, the checksum of all stored data, by ISA-L if installed, which is many times faster."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this platform; the checksums are the same
    from zlib import crc32

__all__ = ["crc32"]
