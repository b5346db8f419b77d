"""The known and intended differences from nats-server, each with its reason."""

import re
from dataclasses import dataclass
from pathlib import Path

from conformance.difference import Difference
from conformance.noted import NOTED


def matches(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern, in which `*` matches any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


@dataclass(frozen=True)
class KnownDifference:
    """A difference that is no failure: where it shows, what both say, and why we differ."""

    title: str
    scenarios: tuple[str, ...]
    labels: tuple[str, ...]
    path: str
    nats_server: str
    headwater: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is this one; labels and path may hold `*`."""
        return (
            difference.scenario in self.scenarios
            and any(matches(label, difference.label) for label in self.labels)
            and matches(self.path, difference.path)
        )


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        title="Wording of some errors about invalid JSON",
        scenarios=(
            "lifecycle.what_is_no_request_is_refused",
            "messages.a_message_is_got_by_time",
            "consumers.a_consumer_may_restart",
            "priority_groups.one_client_is_pinned",
        ),
        labels=("no text at all", "trailing text", "from no time", "no request", "unpin nonsense"),
        path="error/description",
        nats_server="the words of Go's JSON and time parsers",
        headwater="our own wording, with the same code and err_code (10025)",
        reason="The text is for people and also says what is wrong. Clients check the code.",
    ),
    KnownDifference(
        title="Wording of a restore that fails",
        scenarios=("snapshots.what_is_no_snapshot_is_refused",),
        labels=("restore of nonsense",),
        path="error/description",
        nats_server="`restore failed: s2: corrupt input`",
        headwater="`restore failed: this is not an archive of Headwater`",
        reason="An archive contains files of the server that wrote it. Each server reads only its own.",
    ),
    KnownDifference(
        title="When a restored consumer was last active",
        scenarios=("snapshots.consumers_come_back_as_they_stood",),
        labels=("restored pull",),
        path="*/last_active",
        nats_server="is reset by a restore",
        headwater="is shown as it was before the backup",
        reason="The archive contains the complete state of a consumer, including its times.",
    ),
    KnownDifference(
        title="A request to an endpoint that does not exist",
        scenarios=("lifecycle.requests_that_only_a_cluster_answers",),
        labels=("NO.SUCH.THING",),
        path="no answer",
        nats_server="no answer; the client times out",
        headwater="no responders, at once",
        reason="The engine subscribes only to existing endpoints. An immediate error is better for a client.",
    ),
    KnownDifference(
        title="A message at or after a time beyond the last one",
        scenarios=("messages.a_message_is_got_by_time", "direct.messages_by_time"),
        labels=("from the future", "a batch from the future"),
        path="*",
        nats_server="the *first* message of the stream",
        headwater="no message found: 10037, or status 404",
        reason="There is no such message. Returning the oldest one for a time after the newest is a mistake.",
    ),
    KnownDifference(
        title="Deleted sequences of a stream that never held a message",
        scenarios=("lifecycle.info_lists_subjects_and_deleted_sequences_on_demand",),
        labels=("state of DETAIL (2)",),
        path="*deleted",
        nats_server="`num_deleted` 1, `deleted` [0]",
        headwater="neither field",
        reason="Nothing was deleted, and there is no sequence 0.",
    ),
    KnownDifference(
        title="`subjects_filter` with a star inside a token",
        scenarios=("limits.many_subjects_are_counted",),
        labels=("state of MANY (2)",),
        path="subjects",
        nats_server="`many.12*` finds every subject that begins with `many.12`",
        headwater="finds the subject with exactly these characters, here none",
        reason="In NATS a star is a wildcard only as a whole token.",
    ),
    KnownDifference(
        title="`Nats-Num-Pending` at the end of a batch without headers",
        scenarios=("direct.a_batch_counts_down_to_its_end",),
        labels=('direct D {"seq": 1, "batch": 3, "no_hdr": true}',),
        path="[3]/headers/Nats-Num-Pending",
        nats_server="what was pending before the batch (7)",
        headwater="what is pending after it (4), as with headers",
        reason="A client that requests the next batch needs the remaining number.",
    ),
    KnownDifference(
        title="The last of many subjects, up to a sequence or time beyond the last message",
        scenarios=("direct.the_last_of_many_subjects",),
        labels=('direct D {"multi_last": ["d.>"], "up_to_seq": 99}', "up to 2999"),
        path="",
        nats_server="`404 No Results`",
        headwater="the last message of every subject, as with a bound at the last message",
        reason="A bound after the last message excludes no message.",
    ),
    KnownDifference(
        title="A consumer that begins at a time beyond the last message",
        scenarios=("pushes.every_way_to_begin",),
        labels=("time_future*",),
        path="*",
        nats_server="begins at the *first* message of the stream",
        headwater="begins after the last one",
        reason="No stored message is at or after that time. Sending all of them is a mistake.",
    ),
    KnownDifference(
        title="More than 1,000 consumers on a stream",
        scenarios=("consumers.very_many_consumers",),
        labels=("which of the consumers of S are refused",),
        path="*",
        nats_server="are refused (10026) if the stream's config sets no `max_consumers`",
        headwater="are accepted; `max_consumers` of the stream or the account sets a limit",
        reason="A stream may have a consumer for each of many clients. Set a limit if you want one.",
    ),
    KnownDifference(
        title="The ack floor when a message is given up after its last delivery",
        scenarios=(
            "acks.waits_grow_with_each_delivery",
            "acks.so_many_deliveries_and_no_more",
            "acks.one_delivery_only",
            "acks.a_nak_does_not_exceed_the_deliveries",
            "pushes.messages_come_again",
            "retention.what_was_given_up_is_kept",
            "retention.a_workqueue_keeps_what_was_given_up",
        ),
        labels=("*",),
        path="ack_floor/*_seq",
        nats_server="its info shows the old floor until a later message is acknowledged",
        headwater="its info shows the floor past the message at once",
        reason="No message below it will be delivered again. nats-server's own delivery uses the same floor.",
    ),
    KnownDifference(
        title="A stream changes from limits to interest retention",
        scenarios=("retention.a_stream_becomes_one_of_interest",),
        labels=("STREAM.UPDATE.S*", "state of S (2)", "contents of S"),
        path="*",
        nats_server="messages that match no consumer stay until the ack floors have passed them",
        headwater="they are removed at once",
        reason="No consumer needs them, like messages that are published from then on.",
    ),
    KnownDifference(
        title="`last_ts` of an interest stream that never stored a message",
        scenarios=(
            "retention.interest_keeps_what_somebody_needs",
            "limits.interest_without_consumers_keeps_nothing",
        ),
        labels=("state of S", "state of INTEREST"),
        path="last_ts",
        nats_server="the time of the last message that no consumer was interested in",
        headwater="the zero time",
        reason="It is the time of the last message, and there is none.",
    ),
    KnownDifference(
        title="The filter of a mirror, in the answer to its creation",
        scenarios=("mirrors.a_mirror_takes_what_its_filter_takes",),
        labels=("STREAM.CREATE.M",),
        path="mirror/filter_subject",
        nats_server="is not shown before the mirror runs",
        headwater="is shown at once",
        reason="It is part of the config.",
    ),
    KnownDifference(
        title="The end of a mirror with a filter",
        scenarios=("mirrors.a_mirror_takes_what_its_filter_takes",),
        labels=("state of M*",),
        path="*",
        nats_server="is the last message that matches the filter",
        headwater="is the end of the origin; messages that do not match are gaps, there as everywhere",
        reason="`last_seq` shows how far the mirror has copied. A promoted mirror continues from there.",
    ),
    KnownDifference(
        title="Where a source begins if its stream already has messages",
        scenarios=(
            "sources.a_source_joins_a_stream_with_a_past",
            "sources.a_source_joins_a_stream_that_was_purged",
        ),
        labels=("messages of S",),
        path="*",
        nats_server="not before the time of the stream's last message; older messages are never copied",
        headwater="where its config says; by default at the origin's first message",
        reason="A copy must not silently lack messages (nats-server issue 8387).",
    ),
    KnownDifference(
        title="The consumer of a source at an origin of the same server",
        scenarios=(
            "queue_origins.a_work_queue_is_emptied_by_its_source",
            "queue_origins.interest_counts_a_source",
        ),
        labels=("state of *",),
        path="consumer_count",
        nats_server="a hidden consumer at the origin is counted",
        headwater="there is none",
        reason="The engine holds messages at the origin for the copy, and releases them after the commit.",
    ),
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"


def explained(difference: Difference) -> bool:
    """Whether a known difference covers this one."""
    return any(known.covers(difference) for known in KNOWN)


def stale(scenario: str, found: list[Difference]) -> list[KnownDifference]:
    """Return the known differences of a scenario that the servers no longer show."""
    return [known for known in KNOWN if scenario in known.scenarios and not any(map(known.covers, found))]


INTRODUCTION = """# Differences from nats-server

One script of streams, publishing, consumers, sources and mirrors is driven by the official clients against
nats-server 2.15.1 and against Headwater (`tests/conformance`). Answers are compared field by field: times,
identifiers, versions and names of servers by their form, everything else exactly. A difference that two runs
show is listed here with its reason, or it is a failure. A row that no longer differs is a failure too.
`tests/conformance/known.py` holds the rows; this page is rendered from it.

"""
BEYOND = """

## Beyond the script

Differences that no script compares, because they concern timing or are visible only outside an account's API.

"""


def rendered() -> str:
    """Return the page `docs/reference/differences.md`."""
    if not KNOWN:
        return INTRODUCTION + "There are none at present.\n"
    rows = ["| What | nats-server | Headwater | Why | Seen in |", "|---|---|---|---|---|"]
    for known in KNOWN:
        seen = ", ".join(f"`{name}`" for name in known.scenarios)
        cells = (known.title, known.nats_server, known.headwater, known.reason, seen)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    noted = ["| What | nats-server | Headwater | Why |", "|---|---|---|---|"]
    for one in NOTED:
        fields = (one.title, one.nats_server, one.headwater, one.reason)
        noted.append("| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |")
    return INTRODUCTION + "\n".join(rows) + BEYOND + "\n".join(noted) + "\n"
