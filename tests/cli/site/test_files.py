"""The number of nodes that sites were started with is the one that later commands use."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.cli.site.files import directory_of, running_nodes
from headwater.site.run_record import Running, RunRecord, running, write_record


def test_the_directory_is_next_to_the_file_unless_it_is_given() -> None:
    assert directory_of([Path("/a/b.yaml")], None) == Path("/a/.headwater/b")
    assert directory_of([Path("/a/b.yaml")], Path("/c")) == Path("/c")


def test_running_sites_have_the_nodes_that_they_were_started_with(tmp_path: Path) -> None:
    assert running_nodes(tmp_path, None) is None
    write_record(tmp_path, RunRecord(running("keeper", os.getpid()), (), nodes="1"))
    assert running_nodes(tmp_path, None) == "1"
    assert running_nodes(tmp_path, "3") == "3", "what is given wins"
    write_record(tmp_path, RunRecord(running("keeper", os.getpid()), ()))
    assert running_nodes(tmp_path, None) is None
    write_record(tmp_path, RunRecord(Running("keeper", os.getpid(), "another"), (), nodes="1"))
    assert running_nodes(tmp_path, None) is None, "those sites are gone"
