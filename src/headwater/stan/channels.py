"""The channels: streams found or created on first use, with limits, and deleted when unused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import msgspec

from headwater.background_tasks import BackgroundTasks
from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.delivery.timers import Timers
from headwater.errors import ApiError
from headwater.model.stream import StreamConfig
from headwater.model.times import SECOND
from headwater.stan import refusals
from headwater.stan.channel import Channel
from headwater.stan.limits import ChannelLimits, StoreLimits, described
from headwater.stan.names import stream_name, valid_channel
from headwater.stan.outbox import Outbox
from headwater.stan.refusals import StanRefusedError
from headwater.stan.subscription import SharedFlow
from headwater.stream.stream import Stream

logger = logging.getLogger(__name__)

MARK = "headwater.stan.channel"
"""Metadata of a stream that was created as a channel: the channel's name."""
LIMITS = "headwater.stan.limits"
"""Metadata of such a stream: the limits that were applied, to detect changed settings."""
AGAIN_NS = 5 * SECOND
_OURS = ("_STAN.", "_INBOX.")
"""Subjects of the protocol itself: a channel there would store its requests."""


class ChannelObserver(Protocol):
    """Is notified of channels and of the positions of their flows."""

    def on_opened(self, channel: Channel) -> None:
        """A channel is about to be used."""
        ...

    def on_moved(self, shared: SharedFlow) -> None:
        """The position of a flow has changed."""
        ...

    def on_lost(self, channel: Channel) -> None:
        """The stream of a channel was deleted."""
        ...


class Channels:
    """Every channel in use, an observer of the streams."""

    def __init__(
        self,
        domain: Domain,
        limits: StoreLimits,
        outbox: Outbox,
        timers: Timers,
        clock: Clock,
        observer: ChannelObserver,
    ) -> None:
        self._domain = domain
        self.limits = limits
        self._outbox = outbox
        self._timers = timers
        self._clock = clock
        self._observer = observer
        self._channels: dict[str, Channel] = {}
        """The open channels by name."""
        self._by_folded: dict[str, str] = {}
        """Channel names by their case-folded form."""
        self._deleting = BackgroundTasks()
        self._closed = False

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels.values())

    def get(self, name: str) -> Channel | None:
        """Return the channel in use that has this name."""
        return self._channels.get(name)

    async def open_known(self) -> None:
        """Open the streams that were created as channels, and apply changed limits."""
        marked = {c.metadata[MARK]: c for c in list(self._domain.configs()) if MARK in c.metadata}
        for name, config in sorted(marked.items()):
            stream = self._domain.find(config.name)
            if stream is None:
                continue
            limits = self.limits.of(name)
            if config.metadata.get(LIMITS) != described(limits):
                try:
                    stream = await self._domain.update_stream(_limited(config, name, limits))
                except ApiError as error:
                    logger.error("cannot change the limits of channel %s: %s", name, error.description)
            self._add(name, stream)

    async def open(self, name: str) -> Channel:
        """Return the channel, created if missing; raise StanRefusedError if it cannot be."""
        channel = self._channels.get(name)
        if channel is not None:
            if channel.is_leaving:
                raise StanRefusedError(refusals.CHANNEL_LEAVING)
            return channel
        assert valid_channel(name)
        if name.startswith(_OURS):
            raise StanRefusedError(refusals.INVALID_CHANNEL)
        known = self._by_folded.get(name.casefold())
        if known is not None:
            raise StanRefusedError(refusals.other_case(name, known))
        if 0 < self.limits.max_channels <= len(self._channels):
            raise StanRefusedError(refusals.TOO_MANY_CHANNELS)
        stream = self._find(name)
        if stream is None:
            config = _limited(StreamConfig(name=stream_name(name)), name, self.limits.of(name))
            try:
                stream, _ = await self._domain.create_stream(config)
            except ApiError as error:
                raise StanRefusedError(f"channel {name}: {error.description}") from error
        return self._channels.get(name) or self._add(name, stream)

    async def open_if_there(self, name: str) -> Channel | None:
        """Return the channel if its stream exists."""
        return await self.open(name) if name in self._channels or self._find(name) is not None else None

    def _find(self, name: str) -> Stream | None:
        """Return the stream that listens on the channel's name and on nothing else."""
        for config in self._domain.configs():
            if config.subjects == (name,):
                return self._domain.find(config.name)
        return None

    def _add(self, name: str, stream: Stream) -> Channel:
        channel = Channel(
            name,
            stream,
            self.limits.of(name),
            self._outbox,
            self._timers,
            self._clock,
            on_moved=self._observer.on_moved,
            on_left=self.look_after,
        )
        self._channels[name] = channel
        self._by_folded[name.casefold()] = name
        self._observer.on_opened(channel)
        self.look_after(channel)
        return channel

    def on_opened(self, stream: Stream) -> None:
        """Do nothing: a stream becomes a channel when it is first used as one."""

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Do nothing: a change of the stream's config does not affect its channel."""

    def on_closed(self, stream: Stream) -> None:
        """Remove a channel whose stream is deleted."""
        if self._closed:
            return
        for channel in [c for c in self._channels.values() if c.stream is stream]:
            del self._channels[channel.name], self._by_folded[channel.name.casefold()]
            channel.close()
            self._observer.on_lost(channel)

    def look_after(self, channel: Channel) -> None:
        """Schedule the deletion of a channel after `max_inactivity` without use."""
        due_ns = channel.idle_at_ns()
        if due_ns is not None and MARK in channel.stream.config.metadata:
            self._timers.at(due_ns, _Inactivity(channel, self))

    def delete_idle(self, channel: Channel, now_ns: int) -> None:
        """Delete a channel that was not used meanwhile; otherwise check again later."""
        due_ns = channel.idle_at_ns()
        if due_ns is None or channel.is_leaving or self._channels.get(channel.name) is not channel:
            return
        if due_ns > now_ns:
            self.look_after(channel)
            return
        channel.is_leaving = True
        self._deleting.start(self._delete(channel), f"delete {channel.name}")

    async def _delete(self, channel: Channel) -> None:
        # What was taken before the channel refuses messages may not be stored yet, and is acknowledged then.
        with suppress(ApiError):
            await asyncio.shield(channel.stream.publishing.promise())
        due_ns = channel.idle_at_ns()
        if due_ns is None or due_ns > self._clock.steady_ns():
            channel.is_leaving = False
            self.look_after(channel)
            return
        logger.info("deleting channel %s: it was inactive for max_inactivity", channel.name)
        try:
            await self._domain.delete_stream(channel.stream.name)
        except ApiError as error:
            logger.error("cannot delete channel %s: %s", channel.name, error.description)
            channel.is_leaving = False
            self._timers.at(self._clock.steady_ns() + AGAIN_NS, _Inactivity(channel, self))

    async def close(self) -> None:
        """Stop sending; all channels are kept."""
        self._closed = True
        await self._deleting.ended()
        for channel in self._channels.values():
            channel.close()


class _Inactivity:
    """The timer that deletes an inactive channel."""

    def __init__(self, channel: Channel, channels: Channels) -> None:
        self._channel = channel
        self._channels = channels

    def tick(self, now_ns: int) -> int | None:
        """Delete the channel, or check again later."""
        self._channels.delete_idle(self._channel, now_ns)
        return None


def _limited(config: StreamConfig, channel: str, limits: ChannelLimits) -> StreamConfig:
    """Return the config of a channel's stream with these limits."""
    return msgspec.structs.replace(
        config,
        subjects=(channel,),
        max_msgs=limits.max_msgs or -1,
        max_bytes=limits.max_bytes or -1,
        max_age=limits.max_age,
        metadata={**config.metadata, MARK: channel, LIMITS: described(limits)},
    )
