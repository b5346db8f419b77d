"""A subscription as it was asked for, and what several of them share."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.times import SECOND
from headwater.stan.flow import ChannelFlow, Member
from headwater.wire.stan_frames import ack_prefix


@dataclass(frozen=True, slots=True)
class FlowKey:
    """What tells the flows of a channel apart."""

    channel: str
    client_id: str = ""
    """Of a subscription on its own; members of a queue group may be of any client."""
    durable: str = ""
    group: str = ""
    number: int = 0
    """Tells the subscriptions apart that are neither durable nor of a group."""

    @property
    def queue_name(self) -> str:
        """Return the group as monitoring shows it."""
        return f"{self.durable}:{self.group}" if self.group and self.durable else self.group


@dataclass(eq=False, slots=True)
class SharedFlow:
    """One flow with its key, and its number in the records."""

    number: int
    key: FlowKey
    flow: ChannelFlow
    subscriptions: list[StanSubscription] = field(default_factory=list)

    @property
    def is_durable(self) -> bool:
        """Return whether it stays when nobody is subscribed."""
        return bool(self.key.durable)


@dataclass(eq=False, slots=True)
class StanSubscription:
    """One subscription of one client."""

    number: int
    client_id: str
    inbox: str
    ack_inbox: str
    max_in_flight: int
    ack_wait_s: int
    shared: SharedFlow
    answered: bool = False
    """Whether the client was told that it has the subscription."""
    member: Member = field(init=False)
    ack_prefix: bytes = field(init=False)
    """How its acknowledgements begin."""

    def __post_init__(self) -> None:
        self.ack_prefix = ack_prefix(self.channel.encode())
        self.member = Member(self.max_in_flight, self.ack_wait_s * SECOND, is_ready=False)

    @property
    def channel(self) -> str:
        """Return the channel it is on."""
        return self.shared.key.channel
