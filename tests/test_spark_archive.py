"""Spark reads its classes from an archive where there is one for this Java."""

from __future__ import annotations

import os
from pathlib import Path

from java import require_java
from spark_archive import LIGHT, VARIABLE, archive, use


def test_an_archive_that_exists_is_used(tmp_path: Path) -> None:
    require_java()
    environ = {"PATH": os.environ["PATH"]}
    use(environ, tmp_path)
    assert environ.pop(VARIABLE) == LIGHT
    expected = archive(environ, tmp_path)
    assert expected is not None
    expected.touch()
    use(environ, tmp_path)
    assert environ[VARIABLE] == f"{LIGHT} -XX:SharedArchiveFile={expected}"


def test_options_that_are_set_are_kept(tmp_path: Path) -> None:
    require_java()
    environ = {"PATH": os.environ["PATH"], VARIABLE: "-Xint"}
    expected = archive(environ, tmp_path)
    assert expected is not None
    expected.touch()
    use(environ, tmp_path)
    assert environ[VARIABLE] == "-Xint"


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    homes = [tmp_path / name / "bin" / "java" for name in ("a", "b")]
    for java in homes:
        java.parent.mkdir(parents=True)
        java.touch(mode=0o755)
    found = {archive({"JAVA_HOME": str(java.parent.parent)}, tmp_path) for java in homes}
    assert len(found) == 2


def test_without_java_there_is_no_archive(tmp_path: Path) -> None:
    assert archive({"PATH": ""}, tmp_path) is None
