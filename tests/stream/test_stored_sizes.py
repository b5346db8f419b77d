"""Tests of stream.stored_sizes."""

from __future__ import annotations

from pathlib import Path

from stream.streams import Workshop, publish


async def test_a_fold_moves_messages_from_the_log_to_the_table(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        sizes = stream.sizes
        assert (sizes.unfolded_messages, sizes.table_files, sizes.table_bytes) == (0, 0, 0)
        await publish(stream, (b"a", b"1"), (b"b", b"2"))
        assert sizes.unfolded_messages == 2
        assert sizes.log_bytes > 0
        await stream.folder.fold()
        assert (sizes.unfolded_messages, sizes.table_files) == (0, 1)
        first = sizes.table_bytes
        assert first == sum(path.stat().st_size for path in (tmp_path / "S").rglob("*.parquet"))
        await publish(stream, (b"c", b"3"))
        await stream.folder.fold()
        assert sizes.table_files == 2
        assert sizes.table_bytes > first
