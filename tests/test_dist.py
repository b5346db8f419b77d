"""The wheel that `make dist` builds runs on its own, outside of a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    # Built from a copy, because setuptools writes into the tree that it builds.
    tree = folder / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", "./tree"]
    subprocess.run(command, cwd=folder, check=True)
    (built,) = folder.glob("headwater-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a new environment with the wheel, and with the packages it depends on."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # A path in a .pth file adds the packages of this environment, but not its editable headwater.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def ran(python: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    # nats-server is a program of this environment.
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    done = subprocess.run(
        [str(python), *arguments], cwd=python.parents[1], env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_the_code_and_its_types_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    packages = ("headwater/", "headwater-", "pyspark_headwater/")
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "headwater").rglob("*.py")}
    assert modules <= set(names)
    assert {"headwater/py.typed", "headwater/__init__.pyi"} <= set(names)
    assert [name for name in names if not name.startswith(packages)] == []
    assert "headwater = headwater.cli.main:main" in points
    assert "Provides-Extra: all" in metadata


def test_an_engine_of_the_wheel_stores_messages_and_its_command_runs(python: Path) -> None:
    program = """
import asyncio, headwater, json, nats

async def main():
    async with headwater.serve("store", port=0) as engine:
        client = await nats.connect(engine.url)
        js = client.jetstream(timeout=60)
        await js.add_stream(name="ORDERS", subjects=["orders"])
        ack = await js.publish("orders", b"1")
        await client.close()
    return ack.seq

seq = asyncio.run(main())
print(json.dumps([headwater.__file__, seq]))
"""
    where, seq = json.loads(ran(python, "-c", program).splitlines()[-1])
    assert Path(where).is_relative_to(python.parents[1]), "the checkout was imported"
    assert seq == 1
    assert "Usage:" in ran(python, "-m", "headwater", "--help")
