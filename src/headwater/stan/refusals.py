"""Error texts for clients. They are NATS Streaming's own, because clients compare them."""

from __future__ import annotations

from headwater.errors import Error

INVALID_CONNECT = "stan: invalid connection request"
INVALID_CLIENT_ID = "stan: invalid clientID: only alphanumeric and `-` or `_` characters allowed"
CLIENT_REGISTERED = "stan: clientID already registered"
CLIENT_REPLACED = "client has been replaced or is no longer registered"
CLIENT_MISSING = "stan: clientID missing"
CLIENT_UNKNOWN = "stan: unknown clientID"
INVALID_PUBLISH = "stan: invalid publish request"
INVALID_SUBSCRIBE = "stan: invalid subscription request"
INVALID_ACK_WAIT = "stan: invalid ack wait time, should be >= 1s"
INVALID_MAX_IN_FLIGHT = "stan: invalid MaxInflight, should be >= 1"
INVALID_START = "stan: invalid start position"
INVALID_CHANNEL = "stan: invalid subject"
INVALID_DURABLE = "stan: durable name of a durable queue subscriber can't contain the character ':'"
DUPLICATE_DURABLE = "stan: duplicate durable registration"
INVALID_UNSUBSCRIBE = "stan: invalid unsubscribe request"
SUBSCRIPTION_UNKNOWN = "stan: invalid subscription"
CHANNEL_UNKNOWN = "stan: unknown channel"
CHANNEL_LEAVING = "stan: channel is being deleted"
INVALID_CLOSE = "stan: invalid close request"
TOO_MANY_CHANNELS = "too many channels"
TOO_MANY_SUBSCRIPTIONS = "too many subscriptions per channel"


def other_case(name: str, known: str) -> str:
    """Return the error for a channel whose name differs from another one only in letter case."""
    return (
        f'rejecting channel "{name}" because channel "{known}" already exists (different cases not allowed)'
    )


class StanRefusedError(Error):
    """A refused request; its text is sent to the client."""
