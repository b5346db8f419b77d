"""What to do about a source or mirror that copies nothing, by the words of its error or by its phase."""

from __future__ import annotations

from headwater.client.stream_info import UpstreamInfo
from headwater.model.progress import Phase

_BY_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("java",), "install Java 17 where the replicator runs; copying then begins by itself"),
    (("spark",), "check the Spark master and the replicator's lines in the engine's log"),
    (
        ("stream not found",),
        "check the origin's name and its API prefix (external.api); list what is there with "
        "`headwater --js-domain DOMAIN stream ls`",
    ),
    (
        ("re-created", "created again", "lost its last messages"),
        "delete the mirror and add it again, or remove its mirror config to keep its messages",
    ),
    (
        ("which was copied already", "ends before what was copied"),
        "the origin's server lost messages: restore it, or delete the copy and add it again",
    ),
    (
        ("opt_start_seq",),
        "edit the stream, and set opt_start_seq of this source to the first sequence that it lacks",
    ),
    (("flow control",), "add the export and the import that the error names"),
    (
        ("no responders", "timeout", "no answer", "unreachable"),
        "check that the origin's server runs and that its leaf node is connected (`headwater site status`); "
        "for another account, add the export and the import that the error names",
    ),
    (
        ("maximum messages", "maximum bytes", "stream is full", "insufficient", "maximum number of"),
        "raise the limit of the stream or of the account, or purge messages",
    ),
    (("sealed",), "a sealed stream takes no messages: copy into another stream"),
    (("no space", "disk is full", "disk"), "free space on the store's disk; copying continues by itself"),
    (
        ("authorization", "permission", "credentials"),
        "check the credentials and permissions that the replicator connects with",
    ),
)
_BY_PHASE = {
    Phase.RETRYING: "fix what the error says; it is tried again within 10 seconds",
    Phase.STALLED: "check that the replicator runs: see its jobs and the log on the page of the engine",
    Phase.STARTING: "check the origin's name and its API prefix; Spark may still be starting",
}
OTHERWISE = "see the engine's log, and the guide on stuck sources"


def upstream_remedy(upstream: UpstreamInfo) -> str:
    """Return what to do; empty if nothing is wrong."""
    if upstream.error:
        return remedy_of(upstream.error) or _BY_PHASE.get(upstream.phase or Phase.RETRYING, OTHERWISE)
    if upstream.phase in (Phase.RETRYING, Phase.STALLED):
        return _BY_PHASE[upstream.phase]
    if upstream.gap_count:
        return "raise the limits of the origin, or copy it sooner: what a gap lost is not copied any more"
    if upstream.lag is None:
        return _BY_PHASE[Phase.STARTING]
    return ""


def remedy_of(error: str) -> str:
    """Return what to do about an error by its words; empty if they are not known."""
    text = error.lower()
    return next((remedy for words, remedy in _BY_WORDS if any(word in text for word in words)), "")
