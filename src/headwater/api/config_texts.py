"""The configs of streams as JSON text, encoded once and not at each listing."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream
from headwater.wire.stream_json import encode_config


class ConfigTexts:
    """Remembers the text of each stream's config for as long as both exist."""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[Stream, tuple[StreamConfig, msgspec.Raw]] = WeakKeyDictionary()

    def of(self, stream: Stream) -> msgspec.Raw:
        """Return the config of a stream as text that an encoder inserts as it is."""
        config = stream.config
        known = self._texts.get(stream)
        # Configs are frozen: the same object always has the same text.
        if known is None or known[0] is not config:
            known = self._texts[stream] = (config, msgspec.Raw(encode_config(config)))
        return known[1]
