"""The limit of open files of this process: each stream keeps one open, its log."""

from __future__ import annotations

import logging
import resource

from headwater.errors import SettingsError

logger = logging.getLogger(__name__)

MOST = 1 << 20
"""The most that is asked for where there is no limit: some systems refuse more."""
RESERVED = 256
"""Files besides the logs: connections, tables, the catalog, the replicator."""


def raise_limit() -> int:
    """Return how many files may be open, after raising the limit as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("cannot raise the limit of open files, it stays at %d: %s", soft, error)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


def require_files(streams: int, limit: int) -> None:
    """Refuse to serve more streams than the limit of open files allows."""
    if streams + RESERVED > limit:
        raise SettingsError(
            f"the store holds {streams:,} streams, each of which needs an open file, and this process may "
            f"open {limit:,} files: allow {streams + RESERVED:,} with `ulimit -n` or LimitNOFILE= of systemd"
        )
