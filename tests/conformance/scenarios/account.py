"""The account: what is used, what is allowed."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def an_account_counts_its_streams_and_bytes(probe: Probe) -> None:
    await probe.api("INFO", label="empty")
    await probe.create({"name": "F", "subjects": ["f"]})
    await probe.create({"name": "M", "subjects": ["m"], "storage": "memory"})
    await probe.create({"name": "R", "subjects": ["r"], "max_bytes": 1_000_000})
    await probe.api("INFO", label="three streams")
    await probe.fill("f", *[b"x" * 100] * 10)
    await probe.fill("m", *[b"x" * 100] * 10)
    await probe.api("INFO", label="with messages")
    await probe.api("STREAM.PURGE.F")
    await probe.api("INFO", label="after a purge")
    await probe.api("STREAM.DELETE.M")
    await probe.api("INFO", label="after a deletion")
