"""A restored consumer is its config, when it was made, and a state that opens as it was."""

from __future__ import annotations

from headwater.control.restored_consumer import RestoredConsumer
from headwater.delivery.state import ConsumerState
from headwater.model.consumer import ConsumerConfig


def test_its_state_opens_as_it_was() -> None:
    config = ConsumerConfig(name="c")
    state = ConsumerState(config, 5)
    state.deliver_run((5, 6, 9), 100)
    state.ack(5, 1, 101)
    restored = RestoredConsumer(config, 7, state.dump())
    assert ConsumerState.restore(restored.config, [restored.state]) == state
