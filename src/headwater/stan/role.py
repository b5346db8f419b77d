"""What an engine is among the engines of one NATS Streaming cluster id, as its pages show it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headwater import private_file
from headwater.model.unique import unique_id
from headwater.settings import Settings

NODE_FILE = ".stan-node"
"""The file in the store's folder with the id of the node; it is not in the journal."""


class Role(NamedTuple):
    """The state of an engine; in a cluster also its role and the id of its node."""

    state: str
    role: str = ""
    node_id: str = ""


STANDALONE, STANDBY = Role("STANDALONE"), Role("FT_STANDBY")


def serving_role(settings: Settings, store: Path) -> Role:
    """Return the role of an engine that serves."""
    if settings.stan_clustered:
        return Role("CLUSTERED", "Leader", node_id(settings, store))
    return Role("FT_ACTIVE") if settings.standby else STANDALONE


def waiting_role(settings: Settings) -> Role:
    """Return the role of an engine that waits."""
    if settings.stan_clustered and settings.store is not None:
        return Role("CLUSTERED", "Follower", node_id(settings, settings.store))
    return STANDBY


def node_id(settings: Settings, store: Path) -> str:
    """Return the id of the node: the configured one, or the one generated for this folder."""
    if settings.stan_node_id is not None:
        return settings.stan_node_id
    path = store / NODE_FILE
    if not path.exists():
        private_file.replace(path, f"{unique_id()}\n".encode())
    return path.read_text().strip()
