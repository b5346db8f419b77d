"""Declared streams are created once, changed when they differ, and refusals name the place."""

from __future__ import annotations

import pytest

from headwater.errors import Error
from headwater.site.api_client import api_client
from headwater.site.declaring import Outcome, declare, differences
from headwater.site.topology import DeclaredStream
from topologies import RunningSites


async def test_a_stream_is_created_then_unchanged_then_changed(sites: RunningSites) -> None:
    site = sites.topology.site("spoke-2")
    account = site.business[0]
    said = []
    async with api_client(site, account, sites.layout.seed(site, account)) as client:
        for config in ({}, {}, {"max_msgs": 5}, {"max_msgs": 5}):
            stream = DeclaredStream("ACC", {"name": "D", "subjects": ["d"], **config}, "f.yaml:3")
            said.append(str(await declare(client, site, stream)))
        with pytest.raises(Error, match=r"f\.yaml:3: stream 'D' at spoke-2 is refused: .*storage type"):
            await declare(client, site, DeclaredStream("ACC", {"name": "D", "storage": "memory"}, "f.yaml:3"))
        with pytest.raises(Error, match=r"at spoke-2 is refused: replicas > 1 .*\(10074\).*name a journal"):
            await declare(client, site, DeclaredStream("ACC", {"name": "E", "num_replicas": 3}, "f.yaml:3"))
        await client.request("STREAM.DELETE.D")
    assert said == [
        "spoke-2: stream D created",
        "spoke-2: stream D unchanged",
        "spoke-2: stream D changed: max_msgs -1 → 5",
        "spoke-2: stream D unchanged",
    ]


def test_differences_leave_out_what_the_server_writes_itself() -> None:
    before = {"a": 1, "metadata": {"_nats.level": "1", "x": "1"}, "gone": True}
    after = {"a": 2, "metadata": {"_nats.level": "2", "x": "1"}, "new": [1]}
    assert differences(before, after) == ["a 1 → 2", "gone true → nothing", "new nothing → [1]"]
    assert str(Outcome("s", "S", "unchanged")) == "s: stream S unchanged"
