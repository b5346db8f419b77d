"""Tests of store.catalog_repair: streams get their rows in the catalog back, and copies of them do not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.domain import Domain
from headwater.store.finding import Kind
from store import stores


@pytest.fixture
def held(tmp_path: Path) -> stores.Held:
    return asyncio.run(stores.make(tmp_path))


def kinds(store: Path) -> set[Kind]:
    return {found.kind for found in stores.checked(store).problems}


def content(store: Path) -> stores.Held:
    return asyncio.run(stores.content(store))


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_catalog_is_rebuilt_from_the_streams(tmp_path: Path, held: stores.Held, damage: str) -> None:
    path, store_id = tmp_path / "catalog.db", stores.store_id(tmp_path)
    path.unlink() if damage == "gone" else stores.flip(path, 101)
    assert kinds(tmp_path) == {Kind.CATALOG}
    done = stores.repaired(tmp_path)
    assert done.left == []
    assert stores.store_id(tmp_path) == store_id
    assert content(tmp_path) == held
    catalog = Catalog(path)
    assert [row.name for row in catalog.consumers("$G", "ORDERS")] == ["reader"]
    assert '"of EVENTS"' in catalog.streams("$G")[0].config
    catalog.close()


def test_an_orphan_is_attached_with_its_consumers(tmp_path: Path, held: stores.Held) -> None:
    stores.forget(tmp_path, "ORDERS")
    assert kinds(tmp_path) == {Kind.ORPHAN}
    done = stores.repaired(tmp_path)
    assert (done.done, done.left) == (["$G/ORDERS: attached with 1 consumer"], [])
    assert content(tmp_path) == held


@pytest.mark.parametrize("files", [["identity.json"], ["declared.json"], ["identity.json", "declared.json"]])
def test_a_directory_says_again_whose_it_is(tmp_path: Path, held: stores.Held, files: list[str]) -> None:
    for name in files:
        stores.flip(tmp_path / "$G" / "ORDERS" / name)
    assert kinds(tmp_path) <= {Kind.IDENTITY, Kind.DECLARATION}
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held
    assert stores.checked(tmp_path).findings == []


def test_a_moved_directory_is_found_again(tmp_path: Path, held: stores.Held) -> None:
    (tmp_path / "$G" / "ORDERS").rename(tmp_path / "$G" / "moved")
    assert kinds(tmp_path) == {Kind.MOVED}
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


def test_a_missing_directory_stays_a_problem_until_it_is_to_be_forgotten(
    tmp_path: Path, held: stores.Held
) -> None:
    shutil.rmtree(tmp_path / "$G" / "ORDERS")
    assert [found.kind for found in stores.repaired(tmp_path).left] == [Kind.NO_HOME]
    assert stores.repaired(tmp_path, forget_missing=True).left == []
    assert content(tmp_path) == {"EVENTS": held["EVENTS"]}


def test_two_streams_of_one_name_are_not_mixed_up(tmp_path: Path, held: stores.Held) -> None:
    stores.forget(tmp_path, "ORDERS")
    (tmp_path / "$G" / "ORDERS").rename(tmp_path / "kept")

    async def another(domain: Domain) -> None:
        await domain.create_stream(stores.config("ORDERS"))

    asyncio.run(stores.on(tmp_path, another))
    (tmp_path / "kept").rename(tmp_path / "$G" / "second")
    done = stores.repaired(tmp_path)
    assert any("is a second stream of this name" in line for line in done.done)
    assert [found.kind for found in done.left] == [Kind.ORPHAN]
    assert content(tmp_path) == {"ORDERS": {}, "EVENTS": held["EVENTS"]}


def test_a_copy_of_a_stream_is_never_used_in_its_place(tmp_path: Path, held: stores.Held) -> None:
    shutil.copytree(tmp_path / "$G" / "ORDERS", tmp_path / "$G" / "ZZZ")

    async def more(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 2)
        held["ORDERS"] = await stores.everything(domain.stream("ORDERS"))

    asyncio.run(stores.on(tmp_path, more))
    assert [found.kind for found in stores.checked(tmp_path).findings] == [Kind.NOTE]
    stores.forget(tmp_path, "EVENTS")
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


def test_a_catalog_is_rebuilt_with_the_stream_and_not_with_a_copy_of_it(
    tmp_path: Path, held: stores.Held
) -> None:
    shutil.copytree(tmp_path / "$G" / "ORDERS", tmp_path / "$G" / "AAA")

    async def more(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 2)
        held["ORDERS"] = await stores.everything(domain.stream("ORDERS"))

    asyncio.run(stores.on(tmp_path, more))
    (tmp_path / "catalog.db").unlink()
    done = stores.repaired(tmp_path)
    assert any("AAA is a second stream of this name" in line for line in done.done)
    assert done.left == []
    assert content(tmp_path) == held


def test_a_directory_in_the_folder_of_another_account_is_not_attached(
    tmp_path: Path, held: stores.Held
) -> None:
    stores.forget(tmp_path, "ORDERS")
    (tmp_path / "OTHER").mkdir()
    (tmp_path / "$G" / "ORDERS").rename(tmp_path / "OTHER" / "ORDERS")
    done = stores.repaired(tmp_path)
    assert any("is not in the directory of its account" in line for line in done.done)
    assert [found.kind for found in done.left] == [Kind.ORPHAN]
    assert content(tmp_path) == {"EVENTS": held["EVENTS"]}


def republished(store: Path, held: stores.Held) -> None:
    """Publish more than any copy of the stream has."""

    async def more(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 2)
        held["ORDERS"] = await stores.everything(domain.stream("ORDERS"))

    asyncio.run(stores.on(store, more))


def test_a_copy_does_not_take_the_place_of_a_stream_that_lost_its_identity(
    tmp_path: Path, held: stores.Held
) -> None:
    shutil.copytree(tmp_path / "$G" / "ORDERS", tmp_path / "$G" / "AAA")
    republished(tmp_path, held)
    for name in ("identity.json", "declared.json"):
        stores.flip(tmp_path / "$G" / "ORDERS" / name)
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


def test_neither_is_attached_if_a_copy_is_all_that_names_a_stream(tmp_path: Path, held: stores.Held) -> None:
    shutil.copytree(tmp_path / "$G" / "ORDERS", tmp_path / "$G" / "AAA")
    republished(tmp_path, held)
    (tmp_path / "catalog.db").unlink()
    for name in ("identity.json", "declared.json"):
        stores.flip(tmp_path / "$G" / "ORDERS" / name)
    done = stores.repaired(tmp_path)
    assert {found.kind for found in done.left} == {
        Kind.IDENTITY,
        Kind.DECLARATION,
        Kind.ORPHAN,
        Kind.UNREADABLE,
    }
    assert any("may be a copy of" in line for line in done.done)
    shutil.copyfile(tmp_path / "$G" / "AAA" / "identity.json", tmp_path / "$G" / "ORDERS" / "identity.json")
    shutil.copyfile(tmp_path / "$G" / "AAA" / "declared.json", tmp_path / "$G" / "ORDERS" / "declared.json")
    assert stores.repaired(tmp_path).left == []
    assert content(tmp_path) == held


def test_the_stream_is_repaired_and_not_the_copy_next_to_it(tmp_path: Path, held: stores.Held) -> None:
    for name in ("AAA", "ZZZ"):
        shutil.copytree(tmp_path / "$G" / "ORDERS", tmp_path / "$G" / name)
    for path in stores.checkpoints(tmp_path, "AAA"):
        stores.flip(path)
    stores.flip(stores.checkpoints(tmp_path)[0])
    before = {path: path.read_bytes() for path in (tmp_path / "$G").glob("[AZ]*/**/*") if path.is_file()}
    done = stores.repaired(tmp_path)
    assert done.done == ["$G/ORDERS: its checkpoint was damaged; its copy is used, and nothing is lost"]
    assert done.left == []
    assert content(tmp_path) == held
    assert all(path.read_bytes() == data for path, data in before.items())


def test_an_interrupted_rebuild_of_the_catalog_keeps_the_id_of_the_store(
    tmp_path: Path, held: stores.Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """The repair ended here."""

    def killed(*args: object) -> None:
        raise Killed

    expected = stores.store_id(tmp_path)
    (tmp_path / "catalog.db").unlink()
    for name in ("adopt_id", "create", "close"):
        with monkeypatch.context() as patched:
            patched.setattr(Catalog, name, killed)
            with pytest.raises(Killed):
                stores.repaired(tmp_path)
    assert stores.repaired(tmp_path).left == []
    assert stores.store_id(tmp_path) == expected
    assert content(tmp_path) == held
    assert not list(tmp_path.glob("*rebuilt*"))


def test_a_repair_of_one_stream_forgets_no_other(tmp_path: Path, held: stores.Held) -> None:
    stores.forget(tmp_path, "ORDERS")
    away = tmp_path / ".away"
    (tmp_path / "$G" / "EVENTS").rename(away)
    stores.repaired(tmp_path, only="$G/ORDERS", forget_missing=True)
    away.rename(tmp_path / "$G" / "EVENTS")
    assert content(tmp_path) == held
