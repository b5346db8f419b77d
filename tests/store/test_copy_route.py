"""Which places a store can be copied between; what does not fit is refused before anything is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.journal import opened_head
from headwater.store.copy_route import CopyOptions, opened_route
from headwater.store.store_copy import copy
from headwater.store.verify import verify
from journal_cluster import JournalCluster
from journals import Head, folder_journal
from store import stores


@pytest.fixture
def places(tmp_path: Path) -> CopyOptions:
    """Return a copy from a store to a bucket and a journal."""
    asyncio.run(stores.make(tmp_path / "store"))
    return CopyOptions(
        str(tmp_path / "store"), f"file://{tmp_path}/tables", to_journal=f"file://{tmp_path}/journal"
    )


def run(options: CopyOptions) -> None:
    with opened_route(options) as route:
        assert route.target is not None
        copy(route.contents, route.target, lambda count: None)


def back(options: CopyOptions, target: Path) -> CopyOptions:
    """Return the copy in the other direction."""
    return CopyOptions(options.target, str(target), from_journal=options.to_journal)


def test_a_store_goes_into_a_journal_to_another_one_and_back(tmp_path: Path, places: CopyOptions) -> None:
    run(places)
    other = f"file://{tmp_path}/other-journal"
    same = places.target
    run(CopyOptions(same, same, from_journal=places.to_journal, to_journal=other, tables_stay=True))
    run(back(replace(places, to_journal=other), tmp_path / "back"))
    run(replace(back(places, tmp_path / "below"), tables_stay=True))
    assert (tmp_path / "back" / "$G" / "ORDERS" / "table").is_dir()
    assert (tmp_path / "below" / "$G" / "ORDERS" / "table").is_file()
    held = asyncio.run(stores.content(tmp_path / "store"))
    for name in ("back", "below"):
        assert verify(tmp_path / name, stores.DISK, lambda said: None).findings == []
    assert asyncio.run(stores.content(tmp_path / "back")) == held
    # What serves tables in a bucket moves without them.
    last = f"file://{tmp_path}/last-journal"
    run(CopyOptions(str(tmp_path / "below"), same, to_journal=last, tables_stay=True))
    assert "catalog.db" in Head(folder_journal(tmp_path / "last-journal"), tmp_path / "taken").files()


def test_a_copy_in_a_bucket_gets_a_journal_where_it_is(tmp_path: Path, places: CopyOptions) -> None:
    run(replace(places, to_journal=""))
    stay = CopyOptions(places.target, places.target, to_journal=places.to_journal, tables_stay=True)
    with pytest.raises(Error, match="requires the same bucket as source and target"):
        run(replace(stay, target=f"file://{tmp_path}/another"))
    run(stay)
    run(back(places, tmp_path / "back"))
    assert verify(tmp_path / "back", stores.DISK, lambda said: None).findings == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": "{tmp}/x"}, "--to-journal requires a bucket for the tables as target"),
        ({"to_journal": "", "from_journal": "file://{tmp}/j"}, "--from-journal requires the bucket"),
        ({"to_journal": "", "tables_stay": True}, "--tables-stay requires a bucket as source"),
        ({"to_journal": "file://{tmp}/tables/j"}, "the journal must not be below file://"),
        ({"to_journal": "ftp://x"}, "journal: the address must begin with"),
        ({"to_journal": "nats://127.0.0.1:1/X"}, "cannot open the journal nats://127.0.0.1:1/X"),
        ({"tables_stay": True}, "the table of EVENTS is in"),
        ({"source": "{tmp}/tables"}, "has no usable catalog"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    tmp_path: Path,
    places: CopyOptions,
    changes: dict[str, object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opened_head, "PATIENCE_S", 0.0)
    (tmp_path / "tables").mkdir()
    given = {
        name: value.format(tmp=tmp_path) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    with pytest.raises(Error) as error:
        run(replace(places, **given))  # type: ignore[arg-type]
    assert said in str(error.value)
    assert not list((tmp_path / "tables").iterdir())
    assert not [path for path in (tmp_path / "journal").rglob("*") if path.is_file()]


def test_a_dry_run_creates_no_journal(
    tmp_path: Path, places: CopyOptions, journal_servers: JournalCluster
) -> None:
    wanted = replace(places, to_journal=f"{journal_servers.url}/DRY")
    for _ in range(2):
        with opened_route(replace(wanted, dry_run=True)) as route:
            assert (route.target, len(route.contents.streams)) == (None, 2)
    with opened_route(wanted) as route:
        assert route.target is not None
        copy(route.contents, route.target, lambda count: None)
    with pytest.raises(Error, match="is not empty"), opened_route(replace(wanted, dry_run=True)):
        pass
    assert not [path for path in (tmp_path / "journal").rglob("*") if path.is_file()]
