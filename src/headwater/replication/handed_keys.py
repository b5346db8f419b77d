"""Keeps the bucket's keys in the file for replicators up to date, when those of an AWS profile change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from headwater.errors import Error
from headwater.objects.address import StaticCredentials
from headwater.objects.profile_keys import REREAD_S
from headwater.replication import handover
from headwater.settings import Settings

logger = logging.getLogger(__name__)


class HandedKeys:
    """Writes the file again once the profile has other keys than those in it."""

    def __init__(
        self, path: Path, settings: Settings, secret: str, require_owner: Callable[[], None]
    ) -> None:
        self._path = path
        self._settings = settings
        self._secret = secret
        self._require_owner = require_owner
        """Raises if another engine owns the store by now, whose file this is then."""
        self._written = self._found()
        """The keys in the file; None if they are not from a profile."""

    def _found(self) -> StaticCredentials | None:
        address = handover.tables_of(self._settings)
        return address.profile_keys() if address is not None else None

    async def keep(self) -> None:
        """Look for other keys until cancelled; without a profile there is nothing to look for."""
        while self._written is not None:
            await asyncio.sleep(REREAD_S)
            try:
                self.refresh()
            except (Error, OSError) as error:
                logger.warning("the keys for transfer tasks could not be renewed: %s", error)

    def refresh(self) -> None:
        """Write the file again if the profile has other keys."""
        found = self._found()
        if found is not None and found != self._written:
            self._require_owner()
            handover.write(self._path, self._settings, self._secret)
            self._written = found
            logger.info("the AWS profile has new keys, which are used from now on")
