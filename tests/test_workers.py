"""Tests that share a server run in one worker, and long ones begin first."""

from __future__ import annotations

from workers import group_of, rank


def test_a_module_is_a_group_and_so_is_a_folder_that_shares_servers() -> None:
    assert group_of("log/test_log.py") == "log/test_log.py"
    assert group_of("conformance/test_scenarios.py") == group_of("conformance/test_known.py") == "conformance"


def test_what_takes_longest_begins_first() -> None:
    groups = ["log/test_log.py", "on_spark/test_jobs.py", "conformance", "on_spark/test_cinemas.py"]
    assert sorted(groups, key=rank) == [
        "on_spark/test_cinemas.py",
        "conformance",
        "on_spark/test_jobs.py",
        "log/test_log.py",
    ]
