"""A store lists its accounts and streams from its folders alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.errors import SettingsError
from lake.stores import ORDERS, lake


async def test_a_store_lists_its_streams_with_their_sizes(tmp_path: Path) -> None:
    import polars as pl

    async with lake(tmp_path) as running:
        store = headwater.Lake(running.store)
        assert repr(store) == f"Lake({str(running.store)!r})"
        assert store.accounts() == ["$G"]
        empty, orders = store.streams()
        assert (empty.name, empty.rows, empty.files) == ("EMPTY", 0, 0)
        assert (orders.account, orders.name, orders.rows) == ("$G", "ORDERS", ORDERS)
        assert (orders.first_seq, orders.last_seq) == (1, ORDERS)
        assert orders.files >= 1
        assert orders.size_bytes > 0
        assert store.stream("ORDERS").name == "ORDERS"
        assert orders.scan().select(pl.len()).collect().item() == ORDERS


def test_a_stream_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no stream 'X'"):
        headwater.Lake(tmp_path).stream("X")
    with pytest.raises(SettingsError, match="there is no store"):
        headwater.Lake(tmp_path / "nothing")
