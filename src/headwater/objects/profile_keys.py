"""The keys of an AWS profile for a client of a bucket: read again while it runs, so that they can change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headwater.errors import SettingsError
from headwater.objects.address import BucketAddress, StaticCredentials

if TYPE_CHECKING:
    from obstore.store import S3Credential

REREAD_S = 10.0
"""How long keys are used before the profile is read again."""


class ProfileKeys:
    """Called by the client whenever the keys that it has are too old; never shown."""

    def __init__(self, address: BucketAddress, keys: StaticCredentials) -> None:
        self._address = address
        self._keys = keys

    def __call__(self) -> S3Credential:
        """Return the keys that the profile has now, or the last ones while it has none that can be read."""
        try:
            keys = self._address.profile_keys()
        except SettingsError:
            keys = None  # a file that is being written
        if keys is not None:
            self._keys = keys
        return {
            "access_key_id": self._keys.access_key_id,
            "secret_access_key": self._keys.secret_access_key,
            "token": self._keys.session_token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=REREAD_S),
        }
