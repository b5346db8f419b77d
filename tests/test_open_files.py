"""The limit of open files is raised as far as possible, and a limit that is too low is reported."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from headwater.errors import SettingsError
from headwater.open_files import RESERVED, raise_limit, require_files


def limits_in_child(soft: int, hard: int) -> list[int]:
    """Return the limit that a process with these limits ends up with, and what the system says of it."""
    program = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from headwater.open_files import raise_limit\n"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [int(word) for word in ran.stdout.split()]


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    assert limits_in_child(256, 1024) == [1024, 1024, 1024]
    assert limits_in_child(512, 512) == [512, 512, 512]


def test_the_limit_of_this_process_is_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_limit() >= before[0] or before[0] == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_streams_than_files_are_refused_in_one_sentence() -> None:
    require_files(1024 - RESERVED, 1024)
    with pytest.raises(SettingsError, match=r"holds 1,000 streams.*may open 1,024 files: allow 1,256 with"):
        require_files(1000, 1024)
