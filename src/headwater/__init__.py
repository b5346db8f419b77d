"""JetStream streams stored as Delta tables: the public names of the package."""

from headwater.errors import Error
from headwater.public_names import find as __getattr__  # noqa: F401 - Python calls it
from headwater.public_names import names as __dir__  # noqa: F401 - Python calls it
from headwater.version import VERSION as __version__

__all__ = [
    "AsyncClient",
    "CatchUpError",
    "Error",
    "Lake",
    "LocalEngine",
    "PendingClient",
    "Phase",
    "StoredStream",
    "StreamInfo",
    "SyncClient",
    "UpstreamGap",
    "UpstreamInfo",
    "__version__",
    "connect",
    "read",
    "scan",
    "serve",
]
