"""Which subjects a stream may capture, transform and republish to."""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec.structs import replace

from headwater.bus.permissions import INTERNAL
from headwater.errors import ApiError, api_error
from headwater.model.stream import StreamConfig
from headwater.model.subject import collides, is_subset, valid_literal, valid_subject
from headwater.model.subject_set import SubjectSet
from headwater.model.transform import SubjectTransform, TransformError, check_mapping

_API_SPACES = ("$JS.>", "$JSC.>", "$NRG.>")
LONGEST = 3072
"""The most bytes of a subject: one that does not fit into a protocol line would break the connection."""


def is_internal(subject: str) -> bool:
    """Return whether a subject is internal to the engine, so that clients may not have it published to."""
    return is_subset(subject, INTERNAL)


def can_be_sent_to(subject: str) -> bool:
    """Return whether the engine may publish to a subject of a client; a long one breaks the connection."""
    return valid_literal(subject) and len(subject.encode()) <= LONGEST and not is_internal(subject)


def check_subjects(config: StreamConfig) -> StreamConfig:
    """Return the config with valid subjects, its name if it has no other input; refuse invalid ones."""
    if not config.subjects and config.mirror is None and not config.sources:
        return replace(config, subjects=(config.name,))
    listed = SubjectSet(config.subjects)
    for index, subject in enumerate(config.subjects):
        if not valid_subject(subject):
            raise _bad("invalid subject")
        if len(subject.encode()) > LONGEST:
            raise _bad(f"subjects must not be longer than {LONGEST} bytes")
        if is_internal(subject):
            raise _bad("subjects must not overlap with the engine's internal subjects")
        if subject == ">" and not config.no_ack:
            raise _bad("capturing all subjects requires no-ack to be true")
        if subject == ">" and config.num_replicas != 1:
            raise _bad("capturing all subjects requires replicas of 1")
        if not config.no_ack:
            _check_reserved(subject)
        other = min((i for i in listed.colliding(subject) if i > index), default=None)
        if other is not None:
            raise _bad(f"subject {_quoted(subject)} overlaps with {_quoted(config.subjects[other])}")
    return config


def _check_reserved(subject: str) -> None:
    """Refuse acks on the server's subjects, where an ack would answer in the server's place."""
    if any(collides(subject, space) for space in _API_SPACES) and not is_subset(subject, "$JS.EVENT.>"):
        raise _bad("subjects that overlap with jetstream api require no-ack to be true")
    if collides(subject, "$SYS.>") and not is_subset(subject, "$SYS.ACCOUNT.>"):
        raise _bad("subjects that overlap with system api require no-ack to be true")


def check_overlap(config: StreamConfig, others: Iterable[StreamConfig]) -> None:
    """Refuse a subject that another stream captures as well."""
    ours = SubjectSet(config.subjects)
    # With thousands of streams nearly all subjects are literal, and need only be looked up.
    literals = frozenset(config.subjects)
    is_literal = not any(map(_has_wildcard, literals))
    for theirs in (subject for other in others for subject in other.subjects):
        if is_literal and theirs not in literals and not _has_wildcard(theirs):
            continue
        if next(ours.colliding(theirs), None) is not None:
            raise api_error("stream_subject_overlap")


def _has_wildcard(subject: str) -> bool:
    return "*" in subject or ">" in subject


def check_transform(config: StreamConfig) -> None:
    """Refuse an invalid subject transform of the stream."""
    transform = config.subject_transform
    if transform is None:
        return
    if transform.src and not valid_subject(transform.src):
        raise api_error("stream_transform_invalid_source", err=f"invalid subject {transform.src}")
    try:
        check_mapping(transform.src, transform.dest)
    except TransformError as error:
        raise api_error("stream_transform_invalid_destination", err=error) from None


def check_republish(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """Return the config with its republish completed; refuse one that is invalid or forms a cycle."""
    republish, transform = config.republish, config.subject_transform
    if republish is None:
        return config
    if not republish.src:
        if pedantic:
            raise api_error("pedantic", err="republish source can not be empty")
        republish = replace(republish, src=">")
    # From `>` to `>` is a cycle, unless the stream's transform changes its only subject.
    if republish.src == republish.dest == ">" and transform and config.subjects == (transform.src,):
        if pedantic:
            raise api_error("pedantic", err="implicit republish based on subject transform")
        republish = replace(republish, src=transform.dest, dest=transform.dest)
    if is_internal(republish.dest):
        raise _bad("stream configuration for republish destination is an internal subject of the engine")
    if any(collides(republish.dest, subject) for subject in config.subjects):
        raise _bad("stream configuration for republish destination forms a cycle")
    try:
        SubjectTransform(republish.src, republish.dest)
    except TransformError:
        way = f"from '{republish.src}' to '{republish.dest}'"
        raise _bad(f"stream configuration for republish with transform {way} not valid") from None
    return replace(config, republish=republish)


def complete_republish(config: StreamConfig) -> StreamConfig:
    """Return the config of an update with an empty republish destination read as `>`, or refuse it.

    On create nats-server leaves it empty, and republishes nothing.
    """
    republish = config.republish
    if republish is None or republish.dest:
        return config
    try:
        SubjectTransform(republish.src, ">")
    except TransformError as error:
        way = f"from '{republish.src}' to '>'"
        err = f"stream configuration for republish {way}: {error}"
        raise api_error("stream_update", err=err) from None
    return check_republish(replace(config, republish=replace(republish, dest=">")), pedantic=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bad(err: str) -> ApiError:
    return api_error("bad_config", err=err)
