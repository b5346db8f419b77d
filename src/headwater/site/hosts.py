"""Files for real hosts: a directory for each site with configurations and systemd units."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headwater import private_file
from headwater.bus.embedded import find_server
from headwater.errors import Error
from headwater.site.layout import SiteFolders
from headwater.site.topology import LOOPBACK, Topology

EVERYWHERE = "0.0.0.0"
_UNIT = """\
# A hint for systemd: put it into /etc/systemd/system and adapt the user and the paths.{note}
[Unit]
Description={what}
After=network-online.target{after}
Wants=network-online.target

[Service]
ExecStart={command}
User=headwater
Restart=always
RestartSec=1
{more}
[Install]
WantedBy=multi-user.target
"""


def write_hosts(topology: Topology, directory: Path, at: Path, stores: Path) -> list[Path]:
    """Write the files for every host, which will be at `at` there; return their paths."""
    layout = SiteFolders(topology, directory, listen=EVERYWHERE, replicator="own", at=at, stores=stores)
    written = layout.write()
    for site in topology.sites:
        for node in site.nodes:
            config = layout.server_config(site, node)
            check(config)
            command = f"nats-server -c {at / site.name / config.name}"
            unit = _UNIT.format(
                note="",
                what=f"nats-server {node.name}",
                after="",
                command=command,
                more="LimitNOFILE=65536\n",
            )
            written.append(_unit(directory / site.name / f"nats-server-{node.name}.service", unit))
    for engine in topology.engines:
        settings = at / engine / layout.engine_settings(engine).name
        command = f"headwater serve --config {settings}"
        first = next(iter(topology.site(engine).nodes)).name
        unit = _UNIT.format(
            note=_note(topology.site(engine).store.engines),
            what=f"Headwater engine of {engine}",
            after=f" nats-server-{first}.service",
            command=command,
            more="TimeoutStopSec=60\nLimitNOFILE=65536\n",
        )
        written.append(_unit(directory / engine / f"headwater-{engine}.service", unit))
    return written


def _note(engines: int) -> str:
    """Return where the unit of an engine belongs if there are several."""
    return f"\n# Put it on {engines} hosts: one engine serves, the others wait." if engines > 1 else ""


def sharing_a_host(topology: Topology) -> list[str]:
    """Return the sites whose servers keep a journal, all of them at the one address of the site."""
    return [site.name for site in topology.sites if site.has_journal_servers and not site.hosts]


def unreachable(topology: Topology) -> list[str]:
    """Return the sites that others connect to but that have only a loopback address."""
    wanted = {r.site for site in topology.sites for r in site.remotes if not (r.url or r.public_url)}
    return sorted(name for name in wanted if name and topology.site(name).host == LOOPBACK)


def _unit(path: Path, text: str) -> Path:
    private_file.replace(path, text.encode())
    return path


def check(config: Path) -> None:
    """Raise with nats-server's own message if it refuses a configuration."""
    said = subprocess.run(
        [find_server(), "-t", "-c", str(config)], capture_output=True, text=True, check=False, timeout=30
    )
    if said.returncode:
        raise Error(f"nats-server does not accept {config}: {(said.stderr or said.stdout).strip()}")
