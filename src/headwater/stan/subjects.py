"""The subjects on which a STAN server and its clients speak to each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subjects:
    """Where a server of one cluster id listens."""

    cluster_id: str
    inbox: str
    """Below it lie the subjects that the server makes for itself."""

    @property
    def connect(self) -> str:
        """Return where clients introduce themselves."""
        return f"_STAN.discover.{self.cluster_id}"

    @property
    def pings(self) -> str:
        """Return where clients ask whether they are still known."""
        return f"_STAN.discover.{self.cluster_id}.pings"

    @property
    def publish(self) -> str:
        """Return below what clients publish; the name of the channel follows."""
        return f"_STAN.pub.{self.cluster_id}"

    @property
    def subscribe(self) -> str:
        """Return where clients subscribe."""
        return f"_STAN.sub.{self.cluster_id}"

    @property
    def unsubscribe(self) -> str:
        """Return where clients give a subscription up for good."""
        return f"_STAN.unsub.{self.cluster_id}"

    @property
    def close_subscription(self) -> str:
        """Return where clients leave a subscription."""
        return f"_STAN.subclose.{self.cluster_id}"

    @property
    def close(self) -> str:
        """Return where clients say good-bye."""
        return f"_STAN.close.{self.cluster_id}"

    @property
    def partitions(self) -> str:
        """Return where servers tell each other which channels are theirs."""
        return f"_STAN.part.{self.cluster_id}"

    @property
    def acks(self) -> str:
        """Return below what each subscription has its own subject for acknowledgements."""
        return f"{self.inbox}.a."

    @property
    def answers(self) -> str:
        """Return below what streams that may refuse a message answer us."""
        return f"{self.inbox}.p."
