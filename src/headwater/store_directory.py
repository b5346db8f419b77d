"""The directory of a store: created if it is missing, refused if it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import SettingsError

MODE = 0o750
"""Others of this machine cannot read a new store."""


def require_directory(store: Path) -> None:
    """Refuse a store that cannot be a directory, or that this user cannot write."""
    try:
        store.mkdir(MODE, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise SettingsError(f"store: {store} is a file, or is below a file: name a directory") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SettingsError(f"store: the directory {store} cannot be created: {why}") from None
    if os.statvfs(store).f_flag & os.ST_RDONLY:
        raise SettingsError(f"store: {store} is on a read-only file system")
    if not os.access(store, os.R_OK | os.W_OK | os.X_OK):
        raise SettingsError(f"store: this user cannot write in {store}")
