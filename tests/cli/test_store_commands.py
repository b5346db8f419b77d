"""The commands that check and repair a store, run as a person runs them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from headwater.control.store_lock import StoreLock
from headwater.journal.opened_head import MARK
from store import stores
from waits import until


def run(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "headwater", "store", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Path:
    asyncio.run(stores.make(tmp_path))
    return tmp_path


def test_a_healthy_store_is_checked_with_code_0(store: Path) -> None:
    code, said, progress = run("verify", str(store))
    assert (code, said) == (0, "3 streams checked, no problems\n")
    assert "1 of 3: $G/EVENTS" in progress


def test_problems_are_lines_and_code_1_until_they_are_repaired(store: Path) -> None:
    (store / "catalog.db").unlink()
    stores.flip(stores.data_files(store)[0])
    code, said, _ = run("verify", str(store))
    assert code == 1
    assert said.splitlines()[0].startswith(f"catalog: {store / 'catalog.db'}: it is missing or empty.")
    assert said.splitlines()[-1] == "3 streams checked, 2 problems"
    code, said, _ = run("verify", "--json", str(store))
    assert [found["kind"] for found in json.loads(said)["findings"]] == ["catalog", "data"]
    code, said, _ = run("repair", "--dry-run", str(store))
    assert (code, said.splitlines()[-1]) == (1, "2 problems, nothing changed")
    code, said, _ = run("repair", str(store))
    assert (code, said.splitlines()[-1]) == (0, "2 problems before, none left")
    assert "in quarantine:" in said
    assert run("verify", str(store))[0] == 0


def test_a_store_is_checked_as_its_journal_has_it(tmp_path: Path) -> None:
    shared = {"tables": f"file://{tmp_path}/bucket/tables", "journal": f"file://{tmp_path}/bucket/journal"}
    (tmp_path / "bucket").mkdir()

    def files() -> list[Path]:
        return list((tmp_path / "bucket" / "tables").rglob("ORDERS/table/**/*.parquet"))

    async def publish() -> None:
        async with headwater.serve(tmp_path / "lost", **shared) as engine, engine.connect() as client:
            jetstream = client.nats.jetstream()
            await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
            for number in range(100):
                await jetstream.publish("orders.new", b"%d" % number)
            await until(lambda: bool(files()), "the messages are folded")

    asyncio.run(publish())
    shutil.rmtree(tmp_path / "lost")
    code, said, _ = run("verify", "--journal", shared["journal"])
    assert (code, said) == (0, "1 stream checked, no problems\n")
    code, _, said = run("verify", "--journal", f"file://{tmp_path}/bucket/none")
    assert code == 2
    assert "none contains no store" in said
    code, _, said = run("verify")
    assert code == 2
    assert "name the directory of a store, or a --journal" in said
    for path in files():
        path.unlink()
    code, said, _ = run("verify", "--journal", shared["journal"])
    assert code == 1
    assert "$G/ORDERS: the journal/$G/ORDERS/table" in said
    assert "headwater-journal-" not in said


def test_a_store_that_is_in_use_or_none_is_not_checked_with_code_2(store: Path) -> None:
    lock = StoreLock(store)
    lock.take()
    for command in ("verify", "repair"):
        code, _, said = run(command, str(store))
        assert code == 2
        assert "stop the engine first" in said
    lock.release()
    code, _, said = run("verify", str(store / "nothing"))
    assert (code, said) == (2, f"headwater: {store / 'nothing'} is not a directory\n")
    assert not (store / "nothing").exists()


def test_help_says_what_the_codes_mean() -> None:
    code, said, _ = run("repair", "--help")
    assert code == 0
    assert "Nothing is deleted" in said
    assert "2  the store cannot be checked" in said


def test_the_cache_of_a_journal_is_checked_as_one_and_never_repaired_or_copied(store: Path) -> None:
    (store / MARK).write_bytes(b"")
    code, said, more = run("verify", str(store))
    assert (code, said) == (0, "3 streams checked, no problems\n")
    assert "only the cache is checked" in more
    for arguments in (("repair", str(store)), ("copy", str(store), str(store / "copy"))):
        code, said, more = run(*arguments)
        assert (code, said) == (2, "")
        assert "is a cache of a journal" in more
        assert "Traceback" not in more


def test_a_store_is_copied_with_progress_and_an_exit_code(store: Path) -> None:
    target = store / "copy"
    code, said, _ = run("copy", "--dry-run", str(store), str(target))
    assert (code, "would copy" in said, target.exists()) == (0, True, False)
    code, said, progress = run("copy", str(store), str(target))
    assert (code, "every file was compared" in said) == (0, True)
    assert "copying and comparing: 100%" in progress
    assert run("verify", str(target))[1] == "3 streams checked, no problems\n"
    code, _, more = run("copy", str(store), str(target))
    assert (code, more.count("\n")) == (2, 1)
    assert "is not empty" in more
    code, _, more = run("copy", "--tables-stay", str(store), str(target))
    assert (code, "--tables-stay requires a bucket" in more) == (2, True)
