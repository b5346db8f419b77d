"""A subscription, and the flow that several subscriptions share."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.model.times import SECOND
from headwater.stan.flow import ChannelFlow, Member
from headwater.wire.stan_frames import ack_prefix


@dataclass(frozen=True, slots=True)
class FlowKey:
    """The key that identifies a flow of a channel."""

    channel: str
    client_id: str = ""
    """Empty for queue groups, whose members may belong to any client."""
    durable: str = ""
    group: str = ""
    number: int = 0
    """Distinguishes subscriptions that are neither durable nor in a group."""

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
        """Return whether it is kept without subscriptions."""
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
    """Whether the client's request was answered."""
    member: Member = field(init=False)
    ack_prefix: bytes = field(init=False)
    """The first bytes of its acknowledgements."""

    def __post_init__(self) -> None:
        self.ack_prefix = ack_prefix(self.channel.encode())
        self.member = Member(self.max_in_flight, self.ack_wait_s * SECOND, is_ready=False)

    @property
    def channel(self) -> str:
        """Return the channel it is on."""
        return self.shared.key.channel
