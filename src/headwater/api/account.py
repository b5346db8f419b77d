"""The handler of account info."""

from __future__ import annotations

import dataclasses

from headwater.api.context import ApiContext
from headwater.api.request import API_LEVEL, Request
from headwater.control.account import reserved
from headwater.model.stream import Storage
from headwater.wire.stream_json import Json


async def info(context: ApiContext, request: Request) -> Json:
    """Return the account's usage, its limits, and the API level."""
    domain = context.domain
    configs = domain.configs()
    limits = dataclasses.asdict(domain.limits)
    # Not a limit of JetStream; official clients know the others.
    del limits["max_replicas"]
    answer: Json = {
        "memory": await domain.used(Storage.MEMORY),
        "storage": await domain.used(Storage.FILE),
        "reserved_memory": reserved(Storage.MEMORY, configs),
        "reserved_storage": reserved(Storage.FILE, configs),
        "streams": len(configs),
        "consumers": context.consumers.total,
        "limits": limits,
        "api": {
            "level": API_LEVEL,
            "total": context.counters.total,
            "errors": context.counters.errors,
        },
    }
    if context.domain_name:
        answer["domain"] = context.domain_name
    return answer
