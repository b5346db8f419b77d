"""The newer of the catalog's row and the file next to the data is used, and both agree afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.declaration import CONSUMERS, DECLARED, ConsumerFile, Identity
from headwater.control.reconciliation import Reconciliation, consumer_steps
from headwater.disk import RealDisk
from headwater.errors import NewerFormatError
from headwater.model.sealed import seal

DISK = RealDisk(sync=False)


def stream(config: str = "{}", revision: int = 1) -> StreamRow:
    return StreamRow("$G", "a", config, 7, "id", "a", revision)


def consumer(name: str, revision: int = 1, created_ns: int = 5) -> ConsumerRow:
    return ConsumerRow("$G", "a", name, f'{{"r":{revision}}}', created_ns, revision)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    home = tmp_path / "$G" / "a"
    catalog = Catalog(tmp_path / "catalog.db")
    home.mkdir(parents=True)
    declaration.write_identity(DISK, home, Identity("id", "$G", "a"))
    return catalog


def settle(catalog: Catalog, row: StreamRow) -> StreamRow:
    return Reconciliation(catalog, DISK).settle(row, row.home(catalog.store))


def beside(catalog: Catalog) -> tuple[str, int]:
    found = declaration.read_declaration(DISK, stream().home(catalog.store))
    assert found is not None
    return found.config, found.revision


def test_what_is_missing_beside_the_data_is_written(catalog: Catalog) -> None:
    home = stream().home(catalog.store)
    (home / "identity.json").write_bytes(b'{"identity":"id","account":"$G","name":"a","version":1}')
    catalog.create(stream())
    catalog.put_consumer(consumer("c"))
    (home / "declared.json").unlink()
    assert settle(catalog, stream()) == stream()
    assert beside(catalog) == ("{}", 1)
    assert declaration.consumer_files(DISK, home) == [consumer("c").file]
    assert declaration.is_sealed(DISK, home)


def test_the_newer_config_counts_wherever_it_lies(catalog: Catalog) -> None:
    catalog.create(stream())
    home = stream().home(catalog.store)
    declaration.write_declaration(DISK, home, stream('{"n":4}', 4).declaration(catalog.store_id))
    assert settle(catalog, stream()) == stream('{"n":4}', 4)
    assert catalog.streams("$G") == [stream('{"n":4}', 4)]
    catalog.replace(stream('{"n":5}', 5))
    assert settle(catalog, stream('{"n":5}', 5)) == stream('{"n":5}', 5)
    assert beside(catalog) == ('{"n":5}', 5)


@pytest.mark.parametrize("content", [b"{", b""])
def test_a_damaged_declaration_is_kept_aside_and_the_catalog_counts(catalog: Catalog, content: bytes) -> None:
    catalog.create(stream())
    home = stream().home(catalog.store)
    (home / "declared.json").write_bytes(content)
    assert settle(catalog, stream()) == stream()
    assert beside(catalog) == ("{}", 1)
    assert (home / "declared.json.damaged").read_bytes() == content


def test_consumers_that_an_older_catalog_lacks_come_back(catalog: Catalog) -> None:
    catalog.create(stream())
    home = stream().home(catalog.store)
    for each in (consumer("lost"), consumer("changed", 3), consumer("made again", 1, 9)):
        declaration.write_consumer(DISK, home, each.declaration("id"), None)
    catalog.put_consumer(consumer("changed", 2))
    catalog.put_consumer(consumer("made again", 8, 5))
    settle(catalog, stream())
    found = {row.name: (row.created_ns, row.revision, row.config) for row in catalog.consumers("$G", "a")}
    assert found == {
        "lost": (5, 1, '{"r":1}'),
        "changed": (5, 3, '{"r":3}'),
        "made again": (9, 1, '{"r":1}'),
    }


def test_a_damaged_consumer_beside_the_data_takes_nothing_with_it(catalog: Catalog) -> None:
    catalog.create(stream())
    home = stream().home(catalog.store)
    declaration.write_consumer(DISK, home, consumer("one").declaration("id"), None)
    declaration.write_consumer(DISK, home, consumer("two").declaration("id"), None)
    (home / "consumers" / str(consumer("one").file)).write_bytes(b"{")
    settle(catalog, stream())
    assert [row.name for row in catalog.consumers("$G", "a")] == ["two"]
    assert (home / "consumers" / str(consumer("one").file)).exists()


def test_what_a_crash_left_of_an_older_revision_goes() -> None:
    files = [ConsumerFile("c", 5, 1), ConsumerFile("c", 5, 2)]
    steps = consumer_steps([consumer("c", 2)], files)
    assert steps == ([], [], [ConsumerFile("c", 5, 1)])


def test_files_of_a_newer_release_are_refused_and_kept(catalog: Catalog) -> None:
    row = stream()
    catalog.create(row)
    home = row.home(catalog.store)
    newer = seal({"name": "S"}, 9)
    (home / DECLARED).write_bytes(newer)
    with pytest.raises(NewerFormatError, match=r"declared.json has version 9, .*newer release"):
        settle(catalog, row)
    assert (home / DECLARED).read_bytes() == newer
    (home / DECLARED).unlink()
    file = home / CONSUMERS / str(consumer("new").file)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(newer)
    with pytest.raises(NewerFormatError, match="has version 9"):
        settle(catalog, row)
    assert file.read_bytes() == newer
