"""The differences from nats-server that no scenario compares, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NotedDifference:
    """A difference that no scenario compares: it concerns timing, or is visible only outside the API."""

    title: str
    nats_server: str
    headwater: str
    reason: str


NOTED: tuple[NotedDifference, ...] = (
    NotedDifference(
        title="An account that no engine serves",
        nats_server="answers each request to `$JS.API.>` with 10039",
        headwater='does not answer: the client gets "no responders" (503)',
        reason="An engine is a client of the accounts it serves and sees no requests of "
        "other accounts. A nats-server that has JetStream itself answers 10039 there.",
    ),
    NotedDifference(
        title="JetStream as the system account sees it (`nats server report jetstream`, `nats server "
        "list`, `nats server account info`, `$SYS.REQ.SERVER.PING.JSZ`, `/jsz`)",
        nats_server="reports its streams and their sizes",
        headwater="the engine's nats-server reports that JetStream is off",
        reason="These requests are answered inside nats-server, for its own storage only. An engine is a "
        "client of accounts and has no user of the system account. `$JS.API.INFO`, `nats account "
        "info`, `nats stream report`, `headwater stream report` and `headwater check` show the "
        "same for an account.",
    ),
    NotedDifference(
        title="Who made a request, in advisories (`client`)",
        nats_server="names the connection, its user and its address",
        headwater="omits the field",
        reason="A client of nats-server sees what others publish, not who they are. The audit advisory "
        "still contains the request and the answer; nats-server's own log and `CONNECT` events name "
        "the connections.",
    ),
    NotedDifference(
        title="`Last Seen` of a mirror or source whose origin is a stream of the same engine",
        nats_server="the time since its internal consumer last sent something",
        headwater="0 s",
        reason="The engine has both streams and sees the origin at every request. `headwater stream info` "
        "shows the age of the oldest uncopied message as `behind`.",
    ),
    NotedDifference(
        title="What `nats stream backup` says about the size before compression",
        nats_server="the size of its files",
        headwater="0 B",
        reason="The command counts what S2 decompresses. The archive is already compressed, and is sent in "
        "chunks that S2 readers skip. The file is complete, and a restore verifies each part.",
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
        reason="A message is delivered only after it is durable. Acknowledgements are then sent in one "
        "write; deliveries follow on another connection.",
    ),
    NotedDifference(
        title="When a message with a TTL is removed",
        nats_server="within milliseconds of its expiry",
        headwater="within about a tenth of a second of its expiry",
        reason="Streams are checked ten times per second. The removal is written to the log like any other.",
    ),
    NotedDifference(
        title="Time to create or delete a stream, also with memory storage",
        nats_server="writes at most one file, and does not sync",
        headwater="takes several times as long",
        reason="A stream is a directory with a log and a Delta table, and a row of the catalog that is "
        "synced before the answer. Streams are rarely created. To create hundreds at once, send the "
        "requests concurrently.",
    ),
    NotedDifference(
        title="Rates of single synchronous requests (key-value puts and gets, direct gets, double acks) "
        "and of fast ingest",
        nats_server="faster: it is compiled, and does not sync before it acknowledges",
        headwater="each request waits for a sync or for an event loop in Python",
        reason="An acknowledged message survives a power failure. Concurrent clients, asynchronous "
        "publishing and batches share syncs. `make bench` compares the rates on your machine.",
    ),
    NotedDifference(
        title="`STREAM.PURGE` to, or `first_seq` of, a sequence above 2^62",
        nats_server="accepts any 64-bit number, and wraps around after the last",
        headwater="refuses it (10110, 10052)",
        reason="Tables contain signed 64-bit integers. A stream must not run out of them.",
    ),
    NotedDifference(
        title="Credentials given to a server that has none configured",
        nats_server="ignores them",
        headwater="the embedded server refuses those that it does not know",
        reason="It has users, so that only the engine can use its internal subjects. Clients without "
        "credentials are admitted.",
    ),
)
