"""The infos of streams in lists as JSON text, encoded again only after they changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import msgspec

from headwater.model.stream import StreamConfig, StreamState
from headwater.stream.stream import Stream
from headwater.wire.stream_json import Json

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class InfoBasis:
    """All that an info of a stream without sources depends on; only the time of the answer is added."""

    config: StreamConfig
    state: StreamState
    consumers: int


class InfoTexts:
    """Remembers the text of each stream's info for as long as both exist."""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[Stream, tuple[InfoBasis, bytes]] = WeakKeyDictionary()

    def of(self, stream: Stream, basis: InfoBasis, now: str, make: Callable[[], Json]) -> msgspec.Raw:
        """Return the info of a stream at a time, as text that an encoder inserts as it is."""
        known = self._texts.get(stream)
        if known is None or not _is_same(known[0], basis):
            # Without the brace at its end, so that the time can follow.
            known = self._texts[stream] = (basis, _ENCODER.encode(make())[:-1])
        return msgspec.Raw(b'%s,"ts":"%s"}' % (known[1], now.encode()))


def _is_same(one: InfoBasis, other: InfoBasis) -> bool:
    # Configs are frozen: the same object always has the same text.
    return one.config is other.config and one.consumers == other.consumers and one.state == other.state
