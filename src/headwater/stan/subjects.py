"""The subjects of the STAN protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of a server with one cluster id."""

    cluster_id: str
    inbox: str
    """The prefix of the server's own subjects."""

    @property
    def connect(self) -> str:
        """Return the subject of connect requests."""
        return f"_STAN.discover.{self.cluster_id}"

    @property
    def pings(self) -> str:
        """Return the subject of client pings."""
        return f"_STAN.discover.{self.cluster_id}.pings"

    @property
    def publish(self) -> str:
        """Return the prefix of publishes; the channel's name follows."""
        return f"_STAN.pub.{self.cluster_id}"

    @property
    def subscribe(self) -> str:
        """Return the subject of subscribe requests."""
        return f"_STAN.sub.{self.cluster_id}"

    @property
    def unsubscribe(self) -> str:
        """Return the subject of unsubscribe requests, which remove durables."""
        return f"_STAN.unsub.{self.cluster_id}"

    @property
    def close_subscription(self) -> str:
        """Return the subject of subscription close requests, which keep durables."""
        return f"_STAN.subclose.{self.cluster_id}"

    @property
    def close(self) -> str:
        """Return the subject of connection close requests."""
        return f"_STAN.close.{self.cluster_id}"

    @property
    def partitions(self) -> str:
        """Return the subject of partitioning announcements between servers."""
        return f"_STAN.part.{self.cluster_id}"

    @property
    def acks(self) -> str:
        """Return the prefix of the subscriptions' ack subjects."""
        return f"{self.inbox}.a."

    @property
    def answers(self) -> str:
        """Return the prefix of reply subjects for streams that may refuse a message."""
        return f"{self.inbox}.p."
