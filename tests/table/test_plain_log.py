"""What plain JSON says of a table is what delta-rs says of it; what it cannot say is left to delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headwater.disk import RealDisk
from headwater.model.copied import Copied
from headwater.model.message import Message
from headwater.table import plain_log, schema
from headwater.table.commit_file import checkpoint_name, commit_name
from headwater.table.datafile import DataFile
from headwater.table.delta_log import ConflictError, DeltaLog
from headwater.table.table import Table
from table.samples import columns_of

DISK = RealDisk(sync=False)
NOW = 1_700_000_000_000_000_123


def as_delta_rs_reads(directory: Path) -> tuple[int, list[DataFile], Any]:
    delta = DeltaTable(directory)
    files = schema.data_files(pa.table(delta.get_add_actions(flatten=True)))
    return delta.version(), files, [delta.transaction_version(app) for app in ("fold", "adoption", "none")]


def as_plainly_read(directory: Path) -> tuple[int, list[DataFile], Any]:
    known = plain_log.read(directory, DISK)
    assert known is not None
    state, files = known
    return state.version, files, [state.transactions.get(app) for app in ("fold", "adoption", "none")]


def filled(directory: Path) -> Table:
    """Return a table with files of many kinds, some removed."""
    table = Table.open(directory, DISK, name="S")
    files = []
    for number in range(6):
        subject = (b"a.%d" % number, b"\xff\xfe", "ü%\U0001f600".encode(), b"x" * 300)[number % 4]
        rows = [
            Message(10 * number + at, NOW + number * 7919 - at, subject, b"", b"data") for at in range(1, 4)
        ]
        files.append(table.write(columns_of(rows), base_seq=number % 2))
        table.commit([files[-1]], [], {"fold": 10 * number + 3})
    table.commit([], files[1:3], {"adoption": 7})
    return table


def test_files_and_transactions_are_those_that_delta_rs_finds(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert as_plainly_read(tmp_path) == as_delta_rs_reads(tmp_path)
    again = Table.open(tmp_path, DISK)
    assert [file.path for file in again.files] == [file.path for file in table.files]
    assert (again.version, again.transaction("fold"), again.transaction("none")) == (7, 53, None)


def test_a_file_of_a_source_names_its_origin(tmp_path: Path) -> None:
    log = DeltaLog.open(tmp_path, DISK)
    copied = Copied(
        "ORIGIN", "id-1", 40, 1_700_000_000_000_000, NOW // 1000 * 1000, NOW // 1000 * 1000 + 999, 2
    )
    path = f"{schema.folder_of(5, copied)}/part-1.parquet"
    file = DataFile(path, 5, 3, 6, 8, 900, copied.ts, copied.ts, "a", "b", 1, copied)
    log.commit([file], [], {})
    assert as_plainly_read(tmp_path) == as_delta_rs_reads(tmp_path)
    assert as_plainly_read(tmp_path)[1] == [file]


@pytest.mark.parametrize("columns", [schema.TABLE, schema.TABLE_1], ids=["now", "earlier"])
def test_a_new_table_is_the_one_that_delta_rs_would_make(tmp_path: Path, columns: pa.Schema) -> None:
    partitions = schema.PARTITIONS if columns is schema.TABLE else (schema.PARTITION,)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    (ours / "_delta_log").mkdir(parents=True)
    plain_log.create(ours, DISK, "ü", columns, partitions)
    DeltaTable.create(
        theirs,
        columns,
        partition_by=list(partitions),
        name="ü",
        configuration=schema.configuration(partitions),
        raise_if_key_not_exists=False,
    )
    one, two = DeltaTable(ours), DeltaTable(theirs)
    assert one.schema() == two.schema()
    assert one.protocol() == two.protocol()
    for name in ("name", "description", "partition_columns", "configuration"):
        assert getattr(one.metadata(), name) == getattr(two.metadata(), name)
    known, other = plain_log.read(ours, DISK), plain_log.read(theirs, DISK)
    assert known is not None
    assert other is not None
    assert known[0] == other[0]
    assert known[0].partitions == partitions


def changed(directory: Path, version: int, kind: str, fields: dict[str, Any]) -> None:
    """Change what the first action of a kind says in a commit."""
    path = directory / "_delta_log" / commit_name(version)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    action = next((line for line in lines if kind in line), None)
    if action is None:
        lines.append({kind: fields})
    else:
        action[kind] |= fields
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("version", "kind", "fields"),
    [
        (0, "protocol", {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]}),
        (0, "metaData", {"partitionColumns": ["subject"]}),
        (0, "metaData", {"schemaString": '{"type":"struct","fields":[]}'}),
        (1, "domainMetadata", {"domain": "other"}),
        (1, "add", {"path": "base_seq%3D0/part.parquet"}),
        (1, "add", {"deletionVector": {"storageType": "u"}}),
        (1, "add", {"stats": None}),
        (1, "add", {"stats": '{"numRecords":3}'}),
        (1, "add", {"partitionValues": {}}),
        (1, "txn", {"version": None}),
    ],
)
def test_what_is_not_known_here_is_left_to_delta_rs(
    tmp_path: Path, version: int, kind: str, fields: dict[str, Any]
) -> None:
    filled(tmp_path)
    changed(tmp_path, version, kind, fields)
    assert plain_log.read(tmp_path, DISK) is None


@pytest.mark.parametrize("later", [0, 1, 3])
def test_a_checkpoint_and_the_commits_behind_it_are_what_delta_rs_reads(tmp_path: Path, later: int) -> None:
    table = filled(tmp_path)
    copied = Copied(
        "ORIGIN", "id-1", 40, 1_700_000_000_000_000, NOW // 1000 * 1000, NOW // 1000 * 1000 + 999, 2
    )
    path = f"{schema.folder_of(100, copied)}/part-1.parquet"
    linked = DataFile(path, 100, 3, 106, 108, 900, copied.ts, copied.ts, "a", "b", 1, copied)
    table._log.commit([linked], [], {"adoption": 108})
    DeltaTable(tmp_path).create_checkpoint()
    for version in range(8):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    for number in range(later):
        removed = [file for file in table.files if number == 1][:1]
        rows = [Message(1000 + number, NOW, b"later", b"", b"")]
        table.commit([table.write(columns_of(rows))], removed, {"fold": 1000 + number})
    assert as_plainly_read(tmp_path) == as_delta_rs_reads(tmp_path)
    version, files, _ = as_plainly_read(tmp_path)
    assert version == 8 + later
    assert linked in files
    known = plain_log.read(tmp_path, DISK)
    assert known is not None
    assert known[0].partitions == schema.PARTITIONS
    assert DeltaLog.open(tmp_path, DISK)._delta is None


def test_a_checkpoint_that_says_more_is_left_to_delta_rs(tmp_path: Path) -> None:
    filled(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    path = tmp_path / "_delta_log" / checkpoint_name(7)
    whole = pq.read_table(path)
    assert plain_log.read(tmp_path, DISK) is not None
    rows = [{"domain": "other"} if at == 0 else None for at in range(len(whole))]
    pq.write_table(whole.append_column("domainMetadata", pa.array(rows)), path)
    assert plain_log.read(tmp_path, DISK) is None
    pq.write_table(whole.append_column("unheard_of", pa.array(rows)), path)
    assert plain_log.read(tmp_path, DISK) is None
    path.write_bytes(b"PAR1 no such file PAR1")
    assert plain_log.read(tmp_path, DISK) is None


def test_a_log_with_a_gap_is_left_to_delta_rs(tmp_path: Path) -> None:
    filled(tmp_path / "two")
    (tmp_path / "two" / "_delta_log" / commit_name(3)).unlink()
    assert plain_log.read(tmp_path / "two", DISK) is None
    (tmp_path / "three" / "_delta_log").mkdir(parents=True)
    assert plain_log.read(tmp_path / "three", DISK) is None


def test_a_foreign_commit_after_opening_is_not_built_upon(tmp_path: Path) -> None:
    filled(tmp_path)
    mine, other = Table.open(tmp_path, DISK), Table.open(tmp_path, DISK)
    other.commit([], [other.files[0]], {"fold": 99})
    for _ in range(2):
        with pytest.raises(ConflictError):
            mine.commit([], [mine.files[1]], {"fold": 100})
    assert Table.open(tmp_path, DISK).transaction("fold") == 99
