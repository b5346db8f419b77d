"""`headwater serve --console`: the console's command, its secrets, and that it ends with the engine."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import psutil

from engines import engine
from headwater.bus.free_port import free_port
from headwater.cli.console_child import console_child, console_command, console_environment, with_known_ports
from headwater.settings import Settings
from waits import until


def test_without_console_nothing_changes() -> None:
    settings = Settings()
    assert with_known_ports(settings) is settings
    with console_child(settings):
        pass


def test_ports_that_the_engine_would_choose_are_chosen_before() -> None:
    settings = with_known_ports(Settings(console=True, port=0))
    assert settings.port
    assert settings.http_port
    assert with_known_ports(Settings(console=True, http_port=8222, port=4222)).http_port == 8222


def test_the_command_names_the_engine_s_server_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hush\n")
    settings = Settings(
        console=True,
        nats_url="nats://hub:4222",
        domain="lake",
        user="acc",
        password_file=file,
        http_port=8222,
        http_host="0.0.0.0",
    )
    command = console_command(settings)
    assert command[:4] == [sys.executable, "-m", "headwater", "console"]
    assert command[command.index("--monitoring") + 1] == "http://127.0.0.1:8222"
    assert command[command.index("--js-domain") + 1] == "lake"
    assert "hush" not in " ".join(command)
    environment = console_environment(settings, {"NATS_URL": "nats://other", "PATH": "/bin"})
    assert environment == {"PATH": "/bin", "NATS_USER": "acc", "NATS_PASSWORD": "hush"}


async def test_the_console_shows_the_engine_and_ends_with_it(tmp_path: Path) -> None:
    port = free_port()
    async with engine(tmp_path, "--console", "--console-port", str(port)) as running:
        await running.says(f"the console is at http://127.0.0.1:{port}")

        def is_shown() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/engine", timeout=60) as answer:
                return b'"ready":true' in answer.read()

        await until(is_shown)
        children = psutil.Process(running.pid).children(recursive=True)
        [console] = [child for child in children if "console" in child.cmdline()]
        await running.kill()
        await until(lambda: not console.is_running() or console.status() == psutil.STATUS_ZOMBIE)
