"""The real NATS Streaming clients: installed once, apart from our own packages, and run as processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).parent / "python"
JAVASCRIPT = Path(__file__).parent / "js"
PACKAGES = ("asyncio-nats-streaming==0.4.0", "asyncio-nats-client==0.11.5")
INSTALL_WITHIN_S = 300
RUN_WITHIN_S = 300

Problems = dict[str, str | None]
"""For each behaviour that was tried, what is wrong with it."""


def python_behaviours() -> list[str]:
    """Return the behaviours that the Python script tries."""
    text = (PYTHON / "behaviours.py").read_text()
    return re.findall(r"^    (\w+),$", text.partition("BEHAVIOURS = [")[2].partition("]")[0], re.MULTILINE)


def javascript_behaviours() -> list[str]:
    """Return the behaviours that the JavaScript script tries."""
    text = (JAVASCRIPT / "behaviours.mjs").read_text()
    return re.findall(r"^  async (\w+)\(site\)", text.partition("const behaviours = {")[2], re.MULTILINE)


def javascript_missing() -> str:
    """Return why JavaScript can not run here, nothing if it can."""
    absent = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else ""


def install_python() -> Path:
    """Return the client's directory; its package `nats` would conflict with ours in one environment."""
    target = Path(sys.prefix) / "clients" / "-".join(PACKAGES).replace("==", "-")
    if not (target / "stan").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
        subprocess.run([*command, *PACKAGES], check=True, timeout=INSTALL_WITHIN_S)
    return target


def install_javascript() -> None:
    """Return once the client is in node_modules."""
    if not (JAVASCRIPT / "node_modules" / "node-nats-streaming").exists():
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        subprocess.run(["npm", "install", *quiet], cwd=JAVASCRIPT, check=True, timeout=INSTALL_WITHIN_S)


def python_environment() -> dict[str, str]:
    """Return what a Python process needs to be that client: its old generated code wants pure protobuf."""
    path = os.pathsep.join((str(PYTHON), str(install_python())))
    return {**os.environ, "PYTHONPATH": path, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}


async def try_python(url: str, cluster: str) -> Problems:
    """Return the results of the Python client."""
    environment = await asyncio.to_thread(python_environment)
    return await _tried([sys.executable, str(PYTHON / "behaviours.py"), url, cluster], environment)


async def try_javascript(url: str, cluster: str) -> Problems:
    """Return the results of the JavaScript client."""
    await asyncio.to_thread(install_javascript)
    return await _tried(["node", str(JAVASCRIPT / "behaviours.mjs"), url, cluster], dict(os.environ))


async def _tried(command: list[str], environment: dict[str, str]) -> Problems:
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(RUN_WITHIN_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    lines = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, err.decode(errors="replace")
    return {line["behaviour"]: line["problem"] for line in lines}
