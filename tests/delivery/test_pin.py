"""One client is pinned at a time, and every change is reported once."""

from __future__ import annotations

from headwater.delivery.pin import Pin, PinChange


def test_a_pin_is_held_until_it_is_released() -> None:
    pin = Pin()
    assert (pin.id, pin.deadline(60)) == ("", None)
    first = pin.assign("g", 5)
    assert pin.id == first
    assert pin.pinned_ns == 5
    assert pin.deadline(60) == 65
    assert pin.deadline(0) is None
    pin.heard(30)
    assert pin.deadline(60) == 90
    assert pin.release("admin")
    assert not pin.release("admin")
    assert pin.assign("g", 99) != first


def test_changes_are_reported_once_and_bounded() -> None:
    pin = Pin()
    first = pin.assign("g", 1)
    pin.release("timeout")
    assert pin.take_changes() == [PinChange("g", first), PinChange("g", first, "timeout")]
    assert pin.take_changes() == []
    for number in range(1000):
        pin.assign("g", number)
    assert len(pin.take_changes()) <= 64
