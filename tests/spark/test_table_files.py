"""Where a reader finds the files of a stream's table."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.objects.address import BucketAddress
from headwater.spark.table_files import files_of, place_of_table, stream_of
from headwater.table import Table
from headwater.table.remote_table import RemoteTable, write_remote
from table.samples import columns


def test_a_folder_may_be_that_of_the_stream_or_of_its_table(tmp_path: Path) -> None:
    home = tmp_path / "ORDERS"
    for path in (str(home), f"{home}/table", f"file:{home}", f"file://{home}"):
        assert place_of_table(path) == home / "table"
    assert stream_of(home / "table") == "ORDERS"


def test_files_are_in_order_with_whole_paths(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    written = [table.write(columns([seq])) for seq in (2, 1)]
    table.commit(add=written)
    assert [file.first_seq for file in files_of(tmp_path / "table")] == [1, 2]
    assert all(Path(file.path).is_file() for file in files_of(tmp_path / "table"))


def test_a_folder_without_streams_or_with_several_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no stream"):
        files_of(tmp_path / "A" / "table")
    (tmp_path / "A" / "table").mkdir(parents=True)
    with pytest.raises(SettingsError, match="several streams"):
        files_of(tmp_path / "table")


def test_a_stream_s_folder_may_name_a_bucket(tmp_path: Path) -> None:
    remote = RemoteTable(address="s3://lake/prod/$G/ORDERS/table", endpoint="http://127.0.0.1:1")
    write_remote(RealDisk(), tmp_path, remote)
    place = place_of_table(str(tmp_path))
    assert place == remote.bucket
    assert stream_of(place) == "ORDERS"
    assert isinstance(place, BucketAddress)
    assert place.delta_options()["allow_http"] == "true"
