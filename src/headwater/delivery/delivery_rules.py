"""What a consumer's config says about deadlines, redeliveries and unsettled messages."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.delivery.outstanding import NEVER
from headwater.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """The rules of one config, in the form in which deliveries use them."""

    takes_all: bool
    """Whether the consumer began at the stream's first message."""
    waits: tuple[int, ...]
    """How long to wait for the ack of each delivery; the last one is for all further deliveries."""
    max_deliver: int
    """How often a message may be delivered; 0 without a limit."""
    max_ack_pending: int
    """How many messages may be unsettled; 0 or less without a limit."""

    @classmethod
    def of(cls, config: ConsumerConfig) -> DeliveryRules:
        """Return the rules of a config."""
        # Without an ack wait (ack policies none and flow control) nothing becomes due by itself.
        waits = config.backoff or ((config.ack_wait,) if config.ack_wait > 0 else (NEVER,))
        has_acks = config.ack_policy is not AckPolicy.NONE
        return cls(
            takes_all=config.deliver_policy is DeliverPolicy.ALL,
            waits=waits,
            max_deliver=max(config.max_deliver, 0),
            max_ack_pending=config.max_ack_pending if has_acks else 0,
        )

    @property
    def delivers_once(self) -> bool:
        """Return whether nothing is redelivered."""
        return self.max_deliver == 1

    def room(self, pending: int) -> int | None:
        """Return how many more messages may be delivered if `pending` are unsettled; None without a limit."""
        return max(self.max_ack_pending - pending, 0) if self.max_ack_pending > 0 else None

    def is_last(self, deliveries: int) -> bool:
        """Return whether a message that was delivered this often is not delivered again."""
        return 0 < self.max_deliver <= deliveries

    def deadline(self, redeliveries: int, now: int) -> int:
        """Return when a message that is delivered now becomes due for its next delivery."""
        return min(now + self.waits[min(redeliveries, len(self.waits) - 1)], NEVER)
