"""The differences from nats-server that no scenario compares, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NotedDifference:
    """A difference that no scenario compares: it is about time, or shows outside the API."""

    title: str
    nats_server: str
    headwater: str
    reason: str


NOTED: tuple[NotedDifference, ...] = (
    NotedDifference(
        title="An account that no engine serves",
        nats_server="answers each request to `$JS.API.>` with 10039",
        headwater='nobody answers: the client gets "no responders" (503)',
        reason="An engine is a client of the accounts it serves and sees no request of any "
        "other. A nats-server with JetStream of its own beside the engine answers "
        "10039 there itself.",
    ),
    NotedDifference(
        title="JetStream as the system account sees it (`nats server report jetstream`, `nats server "
        "list`, `nats server account info`, `$SYS.REQ.SERVER.PING.JSZ`, `/jsz`)",
        nats_server="reports its streams and their sizes",
        headwater="the nats-server beside the engine reports that JetStream is off",
        reason="These requests are answered inside nats-server, for its own storage only. An engine is a "
        "client of accounts and has no user of the system account. `$JS.API.INFO`, `nats account "
        "info`, `nats stream report`, `headwater stream report` and `headwater check` show the same"
        " for an account.",
    ),
    NotedDifference(
        title="Who made a request, in advisories (`client`)",
        nats_server="names the connection, its user and its address",
        headwater="leaves the field out",
        reason="A client of nats-server sees what others publish, not who they are. The audit advisory "
        "still holds the request and the answer; nats-server's own log and `CONNECT` events name "
        "the connections.",
    ),
    NotedDifference(
        title="`Last Seen` of a mirror or source whose origin is a stream of the same engine",
        nats_server="the time since its internal consumer last sent something",
        headwater="0 s",
        reason="The engine holds both streams, and sees the origin whenever it is asked. How old the "
        "oldest message is that waits is shown as `behind` by `headwater stream info`.",
    ),
    NotedDifference(
        title="What `nats stream backup` says about the size before compression",
        nats_server="the size of its files",
        headwater="0 B",
        reason="The command counts what S2 unpacks. The archive is compressed already, and travels in "
        "chunks that readers of S2 pass over; the file is whole, and a restore checks the digest of"
        " each part.",
    ),
    NotedDifference(
        title="`nats trace` of a message that a stream stores",
        nats_server="shows which stream stored it",
        headwater="ends at the engine's subscription",
        reason="Traces are written by nats-server itself. The PubAck names the stream and the sequence.",
    ),
    NotedDifference(
        title="PubAck and delivery of the same message",
        nats_server="the delivery may come first",
        headwater="the PubAck comes first, by about a millisecond",
        reason="Nothing is delivered before it is durable, and acknowledgements leave in one write as soon"
        " as it is; deliveries follow on another connection.",
    ),
    NotedDifference(
        title="When a message with a time to live is gone",
        nats_server="within milliseconds of its time",
        headwater="within about a tenth of a second of its time",
        reason="Streams are looked at ten times a second. The removal is written to the log like any other.",
    ),
    NotedDifference(
        title="Time to create or delete a stream, in memory too",
        nats_server="writes a file or none, and does not sync",
        headwater="takes several times as long",
        reason="A stream is a directory with a log and a Delta table, and a row of the catalog that is "
        "synced before the answer. Streams are made seldom; those who make hundreds at once can "
        "send the requests together.",
    ),
    NotedDifference(
        title="Rates of single synchronous requests (key-value puts and gets, direct gets, double acks) "
        "and of fast ingest",
        nats_server="faster: it is compiled, and does not sync before it acknowledges",
        headwater="one request after the other waits for a sync or for an event loop in Python",
        reason="What is acknowledged survives a power cut. Many clients at once, asynchronous publishing "
        "and batches share syncs; `make bench` prints the rates of this machine beside those of "
        "nats-server.",
    ),
    NotedDifference(
        title="`STREAM.PURGE` to, or `first_seq` of, a sequence above 2^62",
        nats_server="takes any number of 64 bits, and wraps around after the last",
        headwater="refuses it (10110, 10052)",
        reason="Tables hold signed integers of 64 bits; a stream must not run out of them.",
    ),
    NotedDifference(
        title="Credentials given to a server that has none configured",
        nats_server="ignores them",
        headwater="the embedded server refuses those that it does not know",
        reason="It has users, so that nobody else speaks on the engine's internal subjects. Without "
        "credentials everybody is let in.",
    ),
)
