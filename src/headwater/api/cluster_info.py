"""Which servers keep a stream or a consumer, as the API shows it."""

from __future__ import annotations

from headwater.api.context import ApiContext
from headwater.journal.head_journal import JournalPeer
from headwater.wire.stream_json import Json

UNNAMED = "headwater"
"""The name of a cluster that has none in the settings: clients show peers only of a cluster with a name."""


def cluster_info(context: ApiContext, replicas: int) -> Json:
    """Return the leader, and the known peers of a stream or consumer with this many replicas."""
    peers = context.peers() if replicas > 1 else []
    name = context.cluster_name or (context.domain_name or UNNAMED if peers else "")
    return {
        **({"name": name} if name else {}),
        "leader": context.server_name,
        **({"replicas": [_peer(each) for each in peers]} if peers else {}),
    }


def _peer(peer: JournalPeer) -> Json:
    return {
        "name": peer.name,
        "current": peer.is_current,
        "active": peer.active_ns,
        **({"offline": True} if peer.is_offline else {}),
        **({"lag": peer.lag} if peer.lag else {}),
    }
