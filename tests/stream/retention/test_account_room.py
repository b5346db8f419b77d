"""The room of an account shrinks with what a stream stores, and is asked for again."""

from __future__ import annotations

import pytest

from headwater.errors import ApiError
from headwater.model.stream import Storage
from headwater.stream.ledger import Ledger
from headwater.stream.retention.account_room import AccountRoom
from headwater.stream.retention.removal import FILE_OVERHEAD


def test_what_is_stored_takes_room_until_it_is_asked_for_again() -> None:
    ledger = Ledger(FILE_OVERHEAD)
    room = AccountRoom(Storage.FILE, ledger, lambda storage: 100 if storage is Storage.FILE else 0)
    room.refresh()
    assert room.fits(100)
    assert not room.fits(101)
    ledger.append([1], [1], [b"a"], [60])
    room.check(40)
    with pytest.raises(ApiError) as refused:
        room.check(41)
    assert refused.value.err_code == 10002
    room.refresh()
    room.check(100)


def test_without_a_limit_everything_fits() -> None:
    room = AccountRoom(Storage.MEMORY, Ledger(FILE_OVERHEAD), lambda storage: None)
    assert room.fits(1 << 60)
    room.refresh()
    assert room.fits(1 << 60)
