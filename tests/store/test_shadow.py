"""A shadow opens as the stream does, and the stream stays as it is."""

from __future__ import annotations

from pathlib import Path

from headwater.store.shadow import services, shadow
from headwater.stream.store import Store
from store import stores


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


async def test_opening_a_shadow_changes_nothing_of_the_stream(tmp_path: Path) -> None:
    held = await stores.make(tmp_path)
    home = tmp_path / "$G" / "ORDERS"
    newest = sorted((home / "log").iterdir())[-1]
    newest.write_bytes(newest.read_bytes() + b"torn")
    stores.flip(sorted((home / "table" / "_delta_log").glob("*.json"))[-1])
    before = tree(home)
    with services() as shared, shadow(home) as made:
        store = Store(made, stores.config("ORDERS"), shared)
        assert store.ledger.messages == len(held["ORDERS"])
        store.table.sweep(0, 0)
        store.close()
    assert tree(home) == before
