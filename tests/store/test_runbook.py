"""Each case of docs/guides/repair.md, done as the page says."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.control.catalog_file import CatalogError
from headwater.control.domain import Domain
from store import stores


@pytest.fixture
def held(tmp_path: Path) -> stores.Held:
    return asyncio.run(stores.make(tmp_path))


def store(command: str, path: Path, *flags: str) -> tuple[int, str]:
    """Return code and output of `headwater store`."""
    arguments = [sys.executable, "-m", "headwater", "store", command, *flags, str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout


def test_the_disk_was_full(tmp_path: Path, held: stores.Held) -> None:
    home = tmp_path / "$G" / "ORDERS"
    newest = sorted((home / "log").iterdir())[-1]
    newest.write_bytes(newest.read_bytes() + b"\xf1HWB half a batch")
    folder = stores.data_files(tmp_path)[0].parent
    (folder / "part-0.tmp").write_bytes(b"half a file")
    (home / "checkpoint.tmp").write_bytes(b"half a checkpoint")
    (home / "table" / "_delta_log" / "_commit_1.json.tmp").write_bytes(b"{")
    code, said = store("verify", tmp_path)
    assert (code, said) == (0, "3 streams checked, no problems\n")
    assert asyncio.run(stores.content(tmp_path)) == held
    assert store("verify", tmp_path)[0] == 0


def test_a_file_is_damaged_and_a_backup_of_it_is_put_back(tmp_path: Path, held: stores.Held) -> None:
    path = stores.data_files(tmp_path)[1]
    whole = path.read_bytes()
    stores.flip(path)
    code, said = store("verify", tmp_path)
    assert code == 1
    assert "sequences 9 to 16" in said
    path.write_bytes(whole)
    assert store("verify", tmp_path)[0] == 0
    assert asyncio.run(stores.content(tmp_path)) == held


def test_a_file_is_damaged_and_there_is_no_backup(tmp_path: Path, held: stores.Held) -> None:
    stores.flip(stores.data_files(tmp_path)[1])
    code, said = store("repair", tmp_path)
    assert code == 0
    assert "recorded as lost: sequences 9 to 16" in said
    found = asyncio.run(stores.content(tmp_path))
    assert found["ORDERS"] == {seq: m for seq, m in held["ORDERS"].items() if not 9 <= seq <= 16}


def test_the_catalogue_is_gone(tmp_path: Path, held: stores.Held) -> None:
    for path in tmp_path.glob("catalog.db*"):
        path.unlink()
    with pytest.raises(CatalogError, match="headwater store repair"):
        asyncio.run(stores.content(tmp_path))
    assert store("verify", tmp_path)[0] == 1
    assert store("repair", tmp_path)[0] == 0
    assert asyncio.run(stores.content(tmp_path)) == held


def test_an_older_catalogue_was_restored(tmp_path: Path, held: stores.Held) -> None:
    older = (tmp_path / "catalog.db").read_bytes()
    both: stores.Held = {}

    async def go_on(domain: Domain) -> None:
        new, _ = await domain.create_stream(stores.config("NEW"))
        await stores.publish(new, 3)
        await domain.update_stream(stores.config("ORDERS", description="changed"))
        await domain.delete_stream("EVENTS")
        both["NEW"] = await stores.everything(new)

    async def look(domain: Domain) -> None:
        assert sorted(domain.offline) == ["EVENTS", "NEW"]
        assert domain.stream("ORDERS").config.description == "changed"

    asyncio.run(stores.on(tmp_path, go_on))
    (tmp_path / "catalog.db").write_bytes(older)
    asyncio.run(stores.on(tmp_path, look))
    assert store("repair", tmp_path)[0] == 1, "nobody said that the deleted stream may be forgotten"
    code, said = store("repair", tmp_path, "--forget-missing")
    assert (code, said.splitlines()[-1]) == (0, "1 problem before, none left")
    assert asyncio.run(stores.content(tmp_path)) == {"ORDERS": held["ORDERS"], **both}


def test_a_directory_of_a_deleted_stream_was_restored(tmp_path: Path, held: stores.Held) -> None:
    shutil.copytree(tmp_path / "$G" / "EVENTS", tmp_path / "backup")

    async def delete(domain: Domain) -> None:
        await domain.delete_stream("EVENTS")

    asyncio.run(stores.on(tmp_path, delete))
    (tmp_path / "backup").rename(tmp_path / "$G" / "EVENTS")
    assert store("repair", tmp_path)[0] == 0
    assert asyncio.run(stores.content(tmp_path)) == held
