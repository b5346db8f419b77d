"""Every scenario of the script, answered by Headwater as nats-server answers it."""

import asyncio

import pytest

import conformance.scenarios  # noqa: F401  (fills SCENARIOS)
from conformance.difference import compare
from conformance.known import explained, stale
from conformance.scenario import SCENARIOS, Scenario
from conformance.server import Server


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
async def test_headwater_answers_like_nats_server(
    scenario: Scenario, reference: Server, headwater: Server
) -> None:
    expected, actual = await asyncio.gather(scenario.record(reference), scenario.attempt(headwater))
    found = compare(scenario.name, expected, actual)
    unexplained = [one for one in found if not explained(one)]
    assert not unexplained, "\n".join(f"\n{one.request}\n  {one}" for one in unexplained)
    assert not stale(scenario.name, found), "known differences that no longer differ"
    assert headwater.running(), f"the server died; its log is {headwater.log}"
