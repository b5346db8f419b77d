"""Origins that release copied messages: work queues and interest streams."""

from conformance.copies import add, copied, fill, sourced, upstream
from conformance.inbox import Used
from conformance.probe import Probe
from conformance.scenario import copying


@copying
async def a_work_queue_is_emptied_by_its_source(probe: Probe) -> None:
    await fill(probe, "W", ["w.1", "w.2"], retention="workqueue")
    await probe.create({"name": "S", "sources": [upstream("W")]})
    await copied(probe, "S", messages=2)
    await probe.settle("W", lambda state: state["messages"] == 0)
    await add(probe, ["w.1", "w.2"], 3)
    await copied(probe, "S", messages=4)
    await probe.settle("W", lambda state: state["messages"] == 0)
    await sourced(probe, "S")


@copying
async def interest_counts_a_source(probe: Probe) -> None:
    await fill(probe, "I", [], retention="interest")
    used = Used(probe, "I", "C")
    await used.create()
    await add(probe, ["i.1", "i.2"])
    await probe.create({"name": "S", "sources": [upstream("I")]})
    await copied(probe, "S", messages=2)
    for message in await used.fetch({"batch": 2}, 2):
        await used.ack(message)
    await probe.settle("I", lambda state: state["messages"] == 0)
    await sourced(probe, "S")
