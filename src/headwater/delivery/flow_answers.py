"""Flow control replies, after which a push consumer may continue."""

from __future__ import annotations

from headwater.delivery.acks import Acks
from headwater.wire.frames import Frame

_CONSUMER_TOKEN = 3


class FlowAnswers:
    """A sink of the bus for `$JS.FC.<stream>.<consumer>.<id>`."""

    def __init__(self, acks: Acks) -> None:
        self.items: list[Frame] = []
        """The replies that arrived and are not processed yet; the bus adds them."""
        self._acks = acks

    def flush(self) -> None:
        """Pass each reply to its consumer."""
        items, self.items[:] = list(self.items), []
        for subject, _, headers, _ in items:
            tokens = subject.split(b".")
            if len(tokens) > _CONSUMER_TOKEN:
                name = tokens[_CONSUMER_TOKEN].decode(errors="replace")
                self._acks.flow_answered(name, subject, headers)
