"""What a caller can meet: one base error, and API errors as rows of data.

Error
├── ApiError            answered to a client as code, err_code, description
├── CorruptionError     stored bytes whose checksum does not match
├── DiskError           the disk refused a write or a sync
├── StoreLockedError    another engine owns the store
├── SettingsError       a setting is unknown or has no sense
└── BusError            the connection to nats-server lacks something; says the line of config that mends it
"""

from __future__ import annotations


class Error(Exception):
    """Anything that Headwater reports to a caller."""

    retryable = False
