"""The version of this package, as its clients introduce themselves to nats-server."""

VERSION = "0.2.0"
