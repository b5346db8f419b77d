"""Ranges kept on the disk: bounded, found again after a restart, and never in the way."""

from __future__ import annotations

from pathlib import Path

from headwater.table.range_cache import RangeCache


def test_what_was_put_is_found_also_by_the_next_run(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path / "cache", 1000)
    cache.put("a", b"one")
    assert (cache.get("a"), cache.get("b")) == (b"one", None)
    again = RangeCache(tmp_path / "cache", 1000)
    assert (again.get("a"), again.nbytes) == (b"one", 3)


def test_the_least_recently_used_leaves_first(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 30)
    for key in "abc":
        cache.put(key, bytes(10))
    assert cache.get("a") is not None
    cache.put("d", bytes(10))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert cache.nbytes == sum(path.stat().st_size for path in tmp_path.iterdir()) == 30


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 5)
    cache.put("a", b"123456")
    assert cache.get("a") is None
    RangeCache(tmp_path, 0).put("b", b"1")
    assert list(tmp_path.iterdir()) == []


def test_a_smaller_cache_shrinks_and_forgets_half_written_files(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 100)
    for number in range(10):
        cache.put(str(number), bytes(10))
    (tmp_path / "x.tmp").write_bytes(b"half")
    assert RangeCache(tmp_path, 35).nbytes == 30
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_that_vanished_or_cannot_be_written_is_as_if_never_kept(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path / "cache", 100)
    cache.put("a", b"one")
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert cache.get("a") is None
    assert cache.nbytes == 0
    (tmp_path / "cache").rmdir()
    cache.put("b", b"two")
    assert cache.get("b") is None
    cache.forget("b")


def test_putting_again_replaces(tmp_path: Path) -> None:
    cache = RangeCache(tmp_path, 100)
    cache.put("a", b"one")
    cache.put("a", b"three")
    assert (cache.get("a"), cache.nbytes) == (b"three", 5)
