"""An upstream, a source or a mirror: its config, its identity, and its info."""

from __future__ import annotations

import hashlib

import msgspec

from headwater.errors import ApiError
from headwater.model.progress import Progress

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class TransformConfig(msgspec.Struct, frozen=True):
    """A declared subject transform; an empty `src` matches everything, an empty `dest` only filters."""

    src: str = ""
    dest: str = ""


class External(msgspec.Struct, frozen=True):
    """Where a remote origin is, in another domain or account."""

    api: str = ""
    deliver: str = ""

    @property
    def domain(self) -> str:
        """Return the domain in the API prefix, or an empty string."""
        tokens = self.api.split(".")
        return tokens[1] if len(tokens) > 1 else ""


class ConsumerSource(msgspec.Struct, frozen=True):
    """A durable consumer of the origin to use instead of one of our own."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(msgspec.Struct, frozen=True):
    """One source or mirror as declared; `opt_start_time` in nanoseconds since the epoch."""

    name: str = ""
    opt_start_seq: int = 0
    opt_start_time: int | None = None
    filter_subject: str = ""
    subject_transforms: tuple[TransformConfig, ...] = ()
    external: External | None = None
    consumer: ConsumerSource | None = None

    @property
    def origin_name(self) -> str:
        """Return the first part of the index name: the stream, and the hash of its API prefix if remote."""
        name = self.name
        if self.external is not None:
            name += ":" + hash8(self.external.api)
        return name

    @property
    def index_name(self) -> str:
        """Return the identity of this source, to which its cursor belongs."""
        name = self.origin_name
        if self.consumer is not None:
            name += ":C=" + hash8(self.consumer.name)
        if not self.subject_transforms:
            return f"{name} {self.filter_subject or '>'} >"
        sources = "\f".join(transform.src or ">" for transform in self.subject_transforms)
        destinations = "\f".join(transform.dest or ">" for transform in self.subject_transforms)
        return f"{name} {sources} {destinations}"


class StreamSourceInfo(msgspec.Struct, frozen=True):
    """The info of a source or mirror; `active_ns` is the time since the last contact, -1 for never."""

    name: str
    external: External | None = None
    lag: int = 0
    seq: int = 0
    active_ns: int = -1
    error: ApiError | None = None
    filter_subject: str = ""
    subject_transforms: tuple[TransformConfig, ...] = ()
    progress: Progress | None = None
    """What nats-server does not show; only for clients that ask for it."""


def hash8(text: str) -> str:
    """Return the eight characters to which nats-server hashes a name."""
    return "".join(_DIGITS[byte % 62] for byte in hashlib.sha256(text.encode()).digest()[:8])
