"""How many files this process may have open: each stream has one, its log."""

from __future__ import annotations

import logging
import resource

from headwater.errors import SettingsError

logger = logging.getLogger(__name__)

MOST = 1 << 20
"""More is not asked for where there is no limit: some systems refuse it."""
RESERVED = 256
"""Connections, tables that are read or written, the catalogue, the replicator."""


def raise_limit() -> int:
    """Return how many files may be open, after asking for as many as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of open files stays at %d: %s", soft, error)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def require_files(streams: int, limit: int) -> None:
    """Refuse to serve more streams than there can be open files."""
    if streams + RESERVED > limit:
        raise SettingsError(
            f"the store holds {streams:,} streams, each of which needs an open file, and this process may "
            f"open {limit:,} files: allow {streams + RESERVED:,} with `ulimit -n` or LimitNOFILE= of systemd"
        )
