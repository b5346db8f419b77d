"""The JavaScript half of the script: installed once, run by node, recorded like the rest."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

from conformance.normal import normalise
from conformance.probe import Answer, delete_streams
from conformance.server import Server

FOLDER = Path(__file__).parent / "js"
SCRIPTS = ("consumers", "direct", "keyvalue", "objects", "publishing", "streams")
INSTALL_WITHIN_S = 300
RUN_WITHIN_S = 180


def missing() -> str | None:
    """Return why the script can not run here, if it can not."""
    absent = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else None


def installed() -> bool:
    """Whether the packages lie there in the versions that package.json pins."""
    pinned: dict[str, str] = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    manifests = {name: FOLDER / "node_modules" / name / "package.json" for name in pinned}
    return all(
        manifest.exists() and json.loads(manifest.read_text())["version"] == pinned[name]
        for name, manifest in manifests.items()
    )


def install() -> None:
    """Return once the pinned packages lie in node_modules."""
    if not installed():
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        subprocess.run(["npm", "install", *quiet], cwd=FOLDER, check=True, timeout=INSTALL_WITHIN_S)


async def run(script: str, server: Server) -> list[Answer]:
    """Return what a script recorded against a server, and leave that without streams."""
    node = await asyncio.create_subprocess_exec(
        *("node", "run.mjs", server.url, script),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_WITHIN_S):
            out, err = await node.communicate()
    finally:
        if node.returncode is None:
            node.kill()
        await delete_streams(server)
    assert node.returncode == 0, err.decode()
    recorded: list[dict[str, object]] = json.loads(out)
    return [
        Answer(str(one["label"]), f"{script}.mjs: {one['label']}", normalise(one["value"]))
        for one in recorded
    ]


async def on_both(script: str, reference: Server, server: Server) -> tuple[list[Answer], list[Answer]]:
    """Return what a script recorded against the reference and the server under test, at the same time."""
    expected, actual = await asyncio.gather(run(script, reference), run(script, server))
    assert "the script broke off" not in {answer.label for answer in expected}, expected[-1].value
    return expected, actual
