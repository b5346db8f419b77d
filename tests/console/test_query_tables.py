"""Tests of console.query_tables; test_query_runner.py has a real store."""

from __future__ import annotations

from pathlib import Path

from headwater.console.query_tables import created_ns_of, table_path, tables_of_store
from headwater.control.declaration import Declaration, Identity, write_declaration, write_identity
from headwater.disk import RealDisk


def test_in_a_bucket_the_listed_streams_are_below_the_account() -> None:
    found = tables_of_store("s3://lake/prod/", "$G", ["ORDERS", "../x", "..", ""])
    assert found == {"ORDERS": "s3://lake/prod/$G/ORDERS"}
    assert tables_of_store("s3://lake/prod/", "", ["ORDERS"]) == found


def test_folders_without_an_identity_are_no_streams(tmp_path: Path) -> None:
    (tmp_path / "$G" / "ORDERS").mkdir(parents=True)
    assert tables_of_store(str(tmp_path), "$G", ["ORDERS"]) == {}


def test_a_name_is_found_in_another_case_if_only_one_stream_has_it() -> None:
    tables = {"ORDERS": "a", "Events": "b", "events": "c"}
    assert table_path("orders", tables) == "a"
    assert table_path("events", tables) == "c"
    assert table_path("EVENTS", tables) == ""
    assert table_path("none", tables) == ""


def write_stream(store: Path, account: str, name: str) -> None:
    folder = store / account / name
    folder.mkdir(parents=True)
    write_identity(RealDisk(), folder, Identity(identity="x", account=account, name=name))


def test_the_creation_of_a_stream_is_in_its_folder_and_not_in_a_bucket(tmp_path: Path) -> None:
    assert created_ns_of("s3://lake/$G/A") is None
    assert created_ns_of(str(tmp_path)) == 0
    declared = Declaration(
        store="s", identity="x", account="$G", name="A", directory="A", config="{}", created_ns=7, revision=1
    )
    write_declaration(RealDisk(), tmp_path, declared)
    assert created_ns_of(str(tmp_path)) == 7
    (tmp_path / "declared.json").write_text("damaged")
    assert created_ns_of(str(tmp_path)) == 0


def test_without_an_account_it_is_the_only_one_else_the_global_one(tmp_path: Path) -> None:
    write_stream(tmp_path, "APP", "ORDERS")
    assert set(tables_of_store(str(tmp_path), "", [])) == {"ORDERS"}
    write_stream(tmp_path, "$G", "EVENTS")
    assert set(tables_of_store(str(tmp_path), "", [])) == {"EVENTS"}
    assert set(tables_of_store(str(tmp_path), "APP", [])) == {"ORDERS"}
    assert tables_of_store(str(tmp_path), "NONE", []) == {}
