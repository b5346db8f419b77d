"""TLS contexts of clients."""

from __future__ import annotations

import ssl


def client_context(ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext:
    """Return a context that trusts this authority, or the system's, and presents this certificate.

    Raises OSError, of which `ssl.SSLError` is a kind, if a file is missing or invalid.
    """
    context = ssl.create_default_context(cafile=ca or None)
    if cert:
        context.load_cert_chain(cert, key or None)
    return context
