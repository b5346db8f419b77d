"""The package has one version."""

import tomllib
from pathlib import Path

import headwater
from headwater.version import VERSION


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION == headwater.__version__
