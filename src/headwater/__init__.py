"""JetStream streams that live in a lakehouse."""

__version__ = "0.1.0"
